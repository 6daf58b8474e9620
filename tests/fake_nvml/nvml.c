/* Plays libnvidia-ml.so.1 from a text of key=value lines, so that the real binding can be tested without a driver.
 *
 * The file named by FAKE_NVML is read anew whenever it changes, so a test can lose a GPU or free a hanging call while
 * the process under test runs. Structures are laid out as nvml.h does; only the functions that vlogdiag calls exist.
 *
 *   count=2                                  number of GPUs (at most 16)
 *   init=9                                   nvmlInit answers this error
 *   gpu.0.KEY=VALUE                          see the readers below; a key that is absent answers NOT_SUPPORTED
 *   error.FUNCTION=3, error.1.FUNCTION=15    the function answers this error, for all GPUs or one
 *   hang.FUNCTION=1, hang.1.FUNCTION=1       the function does not return while the line stands
 *   print.FUNCTION=1                         the function writes to the process's stdout
 *   crash.FUNCTION=1                         the function kills the process
 *   lost.1=1                                 every call on GPU 1 answers GPU_IS_LOST
 *   xids=0:48,1:79                           events (GPU:code), each delivered once, in this order
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
enum { GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };
enum { GPUS = 16, MIGS = 8, TEXT = 65536 };

typedef unsigned long long u64;
typedef struct { int gpu; int mig; } device; /* mig -1: the GPU itself */

typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_info; /* v2 and v3 */
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info;
typedef struct { device *gpu; u64 type, data; unsigned gpu_instance, compute_instance; } event_data;

static device gpus[GPUS], migs[GPUS][MIGS];
static char scenario[TEXT];
static struct timespec read_at;
static off_t read_size = -1;

static void load(void) {
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (now.st_size == read_size && !memcmp(&now.st_mtim, &read_at, sizeof read_at)) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    scenario[0] = '\n'; /* so that every key is found behind a line end */
    size_t length = fread(scenario + 1, 1, TEXT - 2, file);
    scenario[length + 1] = 0;
    fclose(file);
    read_size = now.st_size;
    read_at = now.st_mtim;
}

static const char *look_up(const char *key) { /* the text behind "\nKEY=", up to the next line end; 0 if absent */
    char wanted[160];
    int length = snprintf(wanted, sizeof wanted, "\n%s=", key);
    const char *found = strstr(scenario, wanted);
    return found ? found + length : 0;
}

static const char *text_of(const device *d, const char *key) {
    char full[128];
    if (d->mig < 0) snprintf(full, sizeof full, "gpu.%d.%s", d->gpu, key);
    else snprintf(full, sizeof full, "gpu.%d.mig.%d.%s", d->gpu, d->mig, key);
    return look_up(full);
}

static int number(const device *d, const char *key, u64 *value) {
    const char *text = text_of(d, key);
    if (!text) return NOT_SUPPORTED;
    *value = strtoull(text, 0, 0);
    return SUCCESS;
}

static int small(const device *d, const char *key, unsigned *value) {
    u64 wide;
    int status = number(d, key, &wide);
    if (status == SUCCESS) *value = (unsigned)wide;
    return status;
}

static int string(const device *d, const char *key, char *to, unsigned size) {
    const char *text = text_of(d, key);
    if (!text) return NOT_SUPPORTED;
    size_t length = strcspn(text, "\n");
    if (length >= size) return INSUFFICIENT_SIZE;
    memcpy(to, text, length);
    to[length] = 0;
    return SUCCESS;
}

/* The value of "WHAT.FUNCTION" or "WHAT.GPU.FUNCTION", else 0. */
static int fault(const char *what, const char *function, int gpu) {
    char key[128];
    const char *text;
    snprintf(key, sizeof key, "%s.%s", what, function);
    if (!(text = look_up(key)) && gpu >= 0) {
        snprintf(key, sizeof key, "%s.%d.%s", what, gpu, function);
        text = look_up(key);
    }
    return text ? atoi(text) : 0;
}

static int enter(const char *function, const device *d) { /* what every function does first */
    int gpu = d ? d->gpu : -1;
    char key[32];
    load();
    if (fault("crash", function, gpu)) abort();
    if (fault("print", function, gpu)) { puts("[\"noise\""); fflush(stdout); }
    while (fault("hang", function, gpu)) { usleep(5000); load(); }
    if (d) {
        snprintf(key, sizeof key, "lost.%d", gpu);
        if (look_up(key)) return GPU_IS_LOST;
    }
    return fault("error", function, gpu);
}

#define ENTER(d) do { int status_ = enter(__func__, d); if (status_) return status_; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(0);
    for (int g = 0; g < GPUS; g++) {
        gpus[g].gpu = g, gpus[g].mig = -1;
        for (int m = 0; m < MIGS; m++) migs[g][m].gpu = g, migs[g][m].mig = m;
    }
    const char *text = look_up("init");
    return text ? atoi(text) : SUCCESS;
}

int nvmlShutdown(void) { ENTER(0); return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error that only the driver knows"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(0);
    const char *text = look_up("count");
    *count = text ? (unsigned)atoi(text) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **d) {
    if (index >= GPUS) return INVALID_ARGUMENT;
    ENTER(&gpus[index]);
    *d = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetIndex(device *d, unsigned *index) { ENTER(d); *index = (unsigned)d->gpu; return SUCCESS; }
int nvmlDeviceGetName(device *d, char *name, unsigned size) { ENTER(d); return string(d, "name", name, size); }
int nvmlDeviceGetUUID(device *d, char *uuid, unsigned size) { ENTER(d); return string(d, "uuid", uuid, size); }

int nvmlDeviceGetPciInfo_v3(device *d, pci_info *pci) {
    ENTER(d);
    memset(pci, 0, sizeof *pci);
    strcpy(pci->bus_id_legacy, "wrong field");
    return string(d, "bus", pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *m) {
    u64 reserved = 0;
    ENTER(d);
    if (number(d, "total", &m->total) || number(d, "free", &m->free)) return NOT_SUPPORTED;
    number(d, "reserved", &reserved);
    if (number(d, "used", &m->used)) return NOT_SUPPORTED;
    m->used += reserved; /* the old function counts what the driver keeps as used */
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *m) {
    ENTER(d);
    if (m->version != (sizeof *m | 2u << 24)) return VERSION_MISMATCH;
    m->reserved = 0;
    number(d, "reserved", &m->reserved);
    if (number(d, "total", &m->total) || number(d, "free", &m->free)) return NOT_SUPPORTED;
    return number(d, "used", &m->used);
}

int nvmlDeviceGetUtilizationRates(device *d, utilization *u) {
    ENTER(d);
    return small(d, "util", &u->gpu) || small(d, "memutil", &u->memory) ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPowerUsage(device *d, unsigned *milliwatts) { ENTER(d); return small(d, "power", milliwatts); }
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *milliwatts) { ENTER(d); return small(d, "limit", milliwatts); }

int nvmlDeviceGetClockInfo(device *d, unsigned type, unsigned *mhz) {
    ENTER(d);
    return type == 1 ? small(d, "sm", mhz) : INVALID_ARGUMENT;
}

int nvmlDeviceGetMaxClockInfo(device *d, unsigned type, unsigned *mhz) {
    ENTER(d);
    return type == 1 ? small(d, "smmax", mhz) : INVALID_ARGUMENT;
}

int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *bits) { ENTER(d); return number(d, "throttle", bits); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, u64 *bits) { ENTER(d); return number(d, "throttle", bits); }

typedef struct { unsigned version, sensor; int celsius; } temperature;

int nvmlDeviceGetTemperatureV(device *d, temperature *t) {
    unsigned celsius = 0;
    ENTER(d);
    if (t->version != (sizeof *t | 1u << 24)) return VERSION_MISMATCH;
    int status = t->sensor == 0 ? small(d, "temp", &celsius) : INVALID_ARGUMENT;
    t->celsius = (int)celsius;
    return status;
}

int nvmlDeviceGetTemperature(device *d, unsigned sensor, unsigned *celsius) {
    ENTER(d);
    return sensor == 0 ? small(d, "temp", celsius) : INVALID_ARGUMENT;
}

int nvmlDeviceGetTotalEccErrors(device *d, unsigned type, unsigned counter, u64 *count) {
    ENTER(d);
    if (type != 1) return INVALID_ARGUMENT; /* uncorrected */
    return number(d, counter == 0 ? "ecc.volatile" : "ecc.aggregate", count);
}

int nvmlDeviceGetRemappedRows(device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *bad) {
    ENTER(d);
    const char *text = text_of(d, "rows");
    return text && sscanf(text, "%u,%u,%u,%u", corrected, uncorrected, pending, bad) == 4 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkState(device *d, unsigned link, unsigned *active) { /* nvlinks=110 : the third link is down */
    ENTER(d);
    const char *text = text_of(d, "nvlinks");
    if (!text) return NOT_SUPPORTED;
    if (link >= strcspn(text, "\n")) return INVALID_ARGUMENT;
    *active = text[link] == '1';
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(device *d, unsigned *value) { ENTER(d); return small(d, "pcie.gen", value); }
int nvmlDeviceGetCurrPcieLinkWidth(device *d, unsigned *value) { ENTER(d); return small(d, "pcie.width", value); }

int nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
    ENTER(d);
    *pending = 0;
    return small(d, "mig", current);
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) { ENTER(d); *count = MIGS; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **mig) {
    ENTER(d);
    if (index >= MIGS) return INVALID_ARGUMENT;
    *mig = &migs[d->gpu][index];
    return text_of(*mig, "uuid") ? SUCCESS : NOT_FOUND;
}

/* processes=PID:BYTES,PID:BYTES */
static int list(const device *d, const char *key, unsigned *count, process_info *to) {
    const char *text = text_of(d, key);
    unsigned found = 0;
    if (!text) return NOT_SUPPORTED;
    for (const char *at = text; *at && *at != '\n';) {
        char *end;
        process_info one = {(unsigned)strtoul(at, &end, 10), ~0ULL, ~0u, ~0u}; /* no size: not available */
        if (*end == ':') one.used = strtoull(end + 1, &end, 10);
        if (to && found < *count) to[found] = one;
        found++;
        at = *end == ',' ? end + 1 : end;
    }
    int fits = to ? found <= *count : found == 0;
    *count = found;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

#define LISTS(function, key) \
    int function(device *d, unsigned *count, process_info *to) { ENTER(d); return list(d, key, count, to); }

LISTS(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")

static unsigned delivered;
static u64 registered[GPUS];

int nvmlEventSetCreate(void **set) { ENTER(0); *set = &delivered; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; ENTER(0); return SUCCESS; }

int nvmlDeviceRegisterEvents(device *d, u64 types, void *set) {
    ENTER(d);
    if (set != &delivered) return INVALID_ARGUMENT;
    registered[d->gpu] |= types;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, event_data *data, unsigned timeout_ms) {
    (void)timeout_ms;
    ENTER(0);
    if (set != &delivered) return INVALID_ARGUMENT;
    const char *text = look_up("xids");
    unsigned position = 0;
    while (text && *text && *text != '\n') {
        unsigned gpu, code;
        if (sscanf(text, "%u:%u", &gpu, &code) != 2 || gpu >= GPUS) return INVALID_ARGUMENT;
        if (position++ == delivered) {
            delivered++;
            if (!(registered[gpu] & 8)) return TIMEOUT; /* nobody asked for critical Xids of this GPU */
            *data = (event_data){&gpus[gpu], 8, code, ~0u, ~0u};
            return SUCCESS;
        }
        text += strcspn(text, ",\n");
        if (*text == ',') text++;
    }
    return TIMEOUT;
}
