// A Vulkan layer for tests: it adds VK_EXT_device_fault and VK_EXT_memory_budget to a driver, and loses the device as soon as the
// file that PLIMSOLL_TEST_LOSE names exists. Declarations are the used parts of vulkan_core.h and vk_layer.h.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOST (-4)
#define INCOMPLETE 5
#define LOADER_INSTANCE 47
#define LOADER_DEVICE 48
#define FAULT_FEATURES 1000341000
#define MEMORY_BUDGET 1000237000

typedef void (*Call)(void);
typedef Call (*Get)(void *, const char *);
typedef struct Base { int32_t type; struct Base *next; } Base;
typedef struct { char name[256]; uint32_t version; } Extension;
typedef struct Link { struct Link *next; Get instance; Get second; } Link;
typedef struct { int32_t type; void *next; int32_t function; Link *link; } LoaderInfo;
typedef struct { int32_t type; void *next; uint32_t flags, queues; void *queue; uint32_t layers; void *layer; uint32_t extensions;
                 const char *const *extension; void *features; } DeviceInfo;
typedef struct { int32_t type; void *next; uint32_t fault, binary; } FaultFeatures;
typedef struct { int32_t type; void *next; uint64_t budget[16], usage[16]; } Budget;
typedef struct { int32_t type; uint64_t reported, precision; } Address;
typedef struct { char description[256]; uint64_t code, data; } Vendor;
typedef struct { int32_t type; void *next; uint32_t addresses, vendors; uint64_t binary; } Counts;
typedef struct { int32_t type; void *next; char description[256]; Address *address; Vendor *vendor; void *binary; } Info;
typedef struct { int32_t type; void *next; uint32_t version; Get instance, device; void *physical; } Negotiate;

static const Extension added[] = {{"VK_EXT_device_fault", 2}, {"VK_EXT_memory_budget", 1}};
static Get next_instance, next_device;
// The driver's functions, looked up while the instance is created: afterwards the loader returns this layer's functions.
static int32_t (*next_create_device)(void *, DeviceInfo *, const void *, void **);
static int32_t (*next_extensions)(void *, const char *, uint32_t *, Extension *);
static void (*next_features)(void *, void *);
static void (*next_memory)(void *, void *);
static int32_t (*next_wait)(void *, uint32_t, const uint64_t *, uint32_t, uint64_t);

static LoaderInfo *link_info(const Base *info, int32_t type) {
    for (Base *at = info->next; at; at = at->next)
        if (at->type == type && ((LoaderInfo *)at)->function == 0) return (LoaderInfo *)at;
    abort();
}

static void *find(void *chain, int32_t type) {
    for (Base *at = ((Base *)chain)->next; at; at = at->next)
        if (at->type == type) return at;
    return 0;
}

static int32_t create_instance(const Base *info, const void *allocator, void **out) {
    LoaderInfo *loader = link_info(info, LOADER_INSTANCE);
    next_instance = loader->link->instance;
    loader->link = loader->link->next;
    int32_t (*next)(const Base *, const void *, void **) = (void *)next_instance(0, "vkCreateInstance");
    const int32_t result = next(info, allocator, out);
    if (result) return result;
    next_create_device = (void *)next_instance(*out, "vkCreateDevice");
    next_extensions = (void *)next_instance(*out, "vkEnumerateDeviceExtensionProperties");
    next_features = (void *)next_instance(*out, "vkGetPhysicalDeviceFeatures2");
    next_memory = (void *)next_instance(*out, "vkGetPhysicalDeviceMemoryProperties2");
    return 0;
}

static int32_t create_device(void *physical, DeviceInfo *given, const void *allocator, void **out) {
    LoaderInfo *loader = link_info((Base *)given, LOADER_DEVICE);
    next_device = loader->link->second;
    loader->link = loader->link->next;
    // Remove what this layer adds, because the driver below doesn't know it.
    DeviceInfo info = *given;
    const char *names[64];
    info.extension = names;
    info.extensions = 0;
    for (uint32_t i = 0; i < given->extensions && i < 64; ++i)
        if (strcmp(given->extension[i], added[0].name) && strcmp(given->extension[i], added[1].name))
            names[info.extensions++] = given->extension[i];
    for (Base *at = (Base *)&info; at->next; at = at->next)
        if (at->next->type == FAULT_FEATURES) {
            at->next = at->next->next;
            break;
        }
    const int32_t result = next_create_device(physical, &info, allocator, out);
    if (!result) next_wait = (void *)next_device(*out, "vkWaitForFences");
    return result;
}

static int32_t extensions(void *physical, const char *layer, uint32_t *count, Extension *out) {
    if (layer) return next_extensions(physical, layer, count, out);
    uint32_t own = 0;
    int32_t result = next_extensions(physical, 0, &own, 0);
    if (result || !out) {
        *count = own + 2;
        return result;
    }
    if (*count < own + 2) return INCOMPLETE;
    result = next_extensions(physical, 0, &own, out);
    memcpy(out + own, added, sizeof added);
    *count = own + 2;
    return result;
}

static void features(void *physical, void *out) {
    next_features(physical, out);
    FaultFeatures *fault = find(out, FAULT_FEATURES);
    if (fault) fault->fault = 1;
}

// A budget of 1 GiB for this process, a quarter of it in use.
static void memory(void *physical, void *out) {
    next_memory(physical, out);
    Budget *budget = find(out, MEMORY_BUDGET);
    for (int heap = 0; budget && heap < 16; ++heap) {
        budget->budget[heap] = 1ull << 30;
        budget->usage[heap] = 1ull << 28;
    }
}

static int32_t wait(void *device, uint32_t count, const uint64_t *fences, uint32_t all, uint64_t timeout) {
    const char *file = getenv("PLIMSOLL_TEST_LOSE");
    if (file && access(file, F_OK) == 0) {
        // The driver below doesn't know of the loss: what it still computes would use memory that the test frees next.
        next_wait(device, count, fences, all, 10000000000);
        return LOST;
    }
    return next_wait(device, count, fences, all, timeout);
}

static int32_t fault(void *device, Counts *counts, Info *info) {
    (void)device;
    if (info) {
        strcpy(info->description, "a fault for tests");
        if (counts->addresses > 0) info->address[0] = (Address){1, 0x18, 16};
        if (counts->vendors > 0) info->vendor[0] = (Vendor){"unit 3", 31, 7};
    }
    counts->addresses = 1;
    counts->vendors = 1;
    return 0;
}

static const struct { const char *name; void *call; } own[] = {
    {"vkCreateInstance", create_instance}, {"vkCreateDevice", create_device},
    {"vkEnumerateDeviceExtensionProperties", extensions}, {"vkGetPhysicalDeviceFeatures2", features},
    {"vkGetPhysicalDeviceMemoryProperties2", memory}, {"vkWaitForFences", wait}, {"vkGetDeviceFaultInfoEXT", fault},
};

static Call get_device(void *device, const char *name);

static Call get(void *instance, const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Call)get;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (Call)get_device;
    for (unsigned i = 0; i < sizeof own / sizeof *own; ++i)
        if (!strcmp(name, own[i].name)) return (Call)own[i].call;
    return next_instance ? next_instance(instance, name) : 0;
}

static Call get_device(void *device, const char *name) {
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (Call)get_device;
    if (!strcmp(name, "vkWaitForFences")) return (Call)wait;
    if (!strcmp(name, "vkGetDeviceFaultInfoEXT")) return (Call)fault;
    return next_device ? next_device(device, name) : 0;
}

int32_t vkNegotiateLoaderLayerInterfaceVersion(Negotiate *with) {
    with->version = 2;
    with->instance = get;
    with->device = get_device;
    with->physical = 0;
    return 0;
}
