"""What a bug report needs: collected, redacted, bundled."""
