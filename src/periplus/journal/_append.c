/* What one record costs beside its sync: the steps of journal.writing and journal.flush that are the same for every
 * mutation that meets nothing unusual, in C for the native build. Nobody needs it: where anything is not as it usually
 * is, and where this is not there at all, journal.quick goes the long way, which knows every case.
 *
 * Rules kept here:
 *
 * - the bytes, the words of the flush map, the locks and their order are those of the long way: processes of both kinds
 *   write one journal together;
 * - descriptors of the two locks are opened here, so that flock keeps threads of one process apart too; the others are
 *   copies: nobody else closes what is used here;
 * - "not as usual" is found out before anything is changed, and then nothing was changed: the lock is not held, or no
 *   byte was written, or nothing is said to be durable;
 * - a sync that fails is told with the leader's lock still held: the segment is marked before anybody else leads.
 */
#define _GNU_SOURCE
#include "../base/_canonical.h"
#include "../base/_sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As in journal.flush. */
enum { EPOCH = 8, SEGMENT, WRITTEN, DURABLE, POISONED, PACE_US, CROWD, END_OF_WRITTEN, WORDS };
enum { BELLS = 2048 / 8, NUMBER = 2048 / 8 + 6, COVERED = 2048 / 8 + 7, HUNGRY = 2048 / 8 + 8 };
#define MAP_BYTES 4096
#define VALUE_MAX (((uint64_t)1 << 48) - 1)
#define PACE_US_MAX 20000
#define MS 1000000LL
#define LEADER_PATIENCE_NS (1000 * MS)
#define RING_NS (2 * MS)
#define RING_MAX_NS (20 * MS)
#define GATHER_MIN_NS 50000LL
#define GATHER_PACE_US 400 /* a sync that takes less than that is not waited with: the next comes soon enough */
/* As in base.bells and base.locks. */
#define HEARD_NS (100 * MS)
#define TURN_NS (100 * MS)
#define LOCK_RING_NS (3 * MS)
#define HUNGRY_NS (4 * MS)
#define YIELD_NS 100000LL
#define SPIN_NS 30000LL /* a lock is mostly given back within that, and waking up takes longer */
#define SIGNED_NS (1000 * MS)
#define TEXT_BYTES 200
/* As in journal.writing, journal.record and journal.lineage. */
#define ADDED_BYTES_MAX (64 * 1024)
#define LINE_BYTES_MAX (256 * 1024)
#define TRAILER 26 /* ,"sum":"0123456789abcdef"} */
#define MARK_BYTES 256
#define SUMMARY_MAX 200 /* characters */
#define INLINE_MAX (64 * 1024)

typedef struct {
    uint64_t device, inode;
    int64_t modified_ns, changed_ns;
} Stamp;

typedef struct {
    PyObject_HEAD
    pid_t pid;
    int lock_fd, lead_fd, segment_fd, mark_fd, folder_fds[2];
    Stamp stamps[2];
    char path[PATH_MAX];
    char lineage[64];
    uint64_t device, inode; /* of the segment's file */
    uint64_t segment, segment_bytes;
    uint64_t *map;
    uint16_t seeds[WORDS];
    uint64_t epoch; /* that the seeds are of */
    /* the words as we left them with all durable, and as we left them with one batch written behind that */
    uint64_t agreed[WORDS], left[WORDS];
    int is_agreed, is_left;
    uint64_t crowd;
    /* who holds the lock, for people */
    char who[TEXT_BYTES], command[TEXT_BYTES], text[TEXT_BYTES];
    int64_t text_ns;
    /* under the lock */
    int is_busy, is_held, is_leading, is_closing;
    PyObject *owner; /* of what is_busy says */
    uint64_t end, next_seq, durable;
    char sum[16];
    /* what a record needs of chance and is not from elsewhere: taken many at a time */
    uint8_t chance[26 * 9]; /* getrandom gives up to 256 bytes whole */
    size_t chance_left;
    PyTypeObject *kinds[3]; /* Added, Position, Receipt */
    PyObject *lineage_text;
    /* what was written last */
    uint64_t batch_epoch, batch_start, batch_end, batch_seq;
    uint8_t leaf[32];
} Appender;

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* -- the words of the map ------------------------------------------------------------------------------------------- */

/* As binascii.crc_hqx of the six low bytes of value, the lowest first. */
static uint16_t
crc_of(uint64_t value, uint16_t crc)
{
    for (int i = 0; i < 6; i++, value >>= 8) {
        uint16_t x = crc >> 8 ^ (uint16_t)(value & 0xFF);
        x ^= x >> 4;
        crc = (uint16_t)(crc << 8 ^ x << 12 ^ x << 5 ^ x);
    }
    return crc;
}

static uint64_t
load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void
store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint16_t
seed_of(Appender *self, int word, uint64_t epoch)
{
    if (word == EPOCH) {
        return EPOCH;
    }
    if (self->epoch != epoch) {
        for (int i = SEGMENT; i < WORDS; i++) {
            self->seeds[i] = crc_of(epoch, (uint16_t)i);
        }
        self->epoch = epoch;
    }
    return self->seeds[word];
}

/* Whether the word is whole and of that epoch; its value then. */
static int
get(Appender *self, int word, uint64_t epoch, uint64_t *value)
{
    uint64_t raw = load(self->map + word);
    *value = raw >> 16;
    return (uint16_t)raw == crc_of(raw >> 16, seed_of(self, word, epoch));
}

static uint64_t
put(Appender *self, int word, uint64_t value, uint64_t epoch)
{
    uint64_t raw = value << 16 | crc_of(value, seed_of(self, word, epoch));
    store(self->map + word, raw);
    return raw;
}

static int
is_epoch(Appender *self, uint64_t epoch)
{
    uint64_t found;
    return get(self, EPOCH, 0, &found) && found == epoch && found != 0;
}

/* Touching what was cut off would end the process. */
static int
is_mapped(Appender *self)
{
    return self->map != NULL && lseek(self->lead_fd, 0, SEEK_END) >= MAP_BYTES;
}

static int
words_are(Appender *self, const uint64_t words[WORDS])
{
    return memcmp(self->map, words, WORDS * 8) == 0;
}

/* -- bells: see base.bells ------------------------------------------------------------------------------------------ */

static uint32_t
listen_to(Appender *self, int bell)
{
    store(self->map + BELLS + 2 * bell + 1, (uint64_t)now_ns());
    return (uint32_t)load(self->map + BELLS + 2 * bell);
}

static void
sleep_by(Appender *self, int bell, uint32_t heard, int64_t for_ns)
{
    struct timespec until = {for_ns / 1000000000LL, for_ns % 1000000000LL};
    void *address = self->map + BELLS + 2 * bell; /* its low half: the machines that this is built for begin with it */
    Py_BEGIN_ALLOW_THREADS
    if (syscall(SYS_futex, address, FUTEX_WAIT, heard, &until, NULL, 0) != 0 && errno != EAGAIN && errno != ETIMEDOUT
        && errno != EINTR) {
        nanosleep(&until, NULL); /* where the system says no, sleeping is what it always was */
    }
    Py_END_ALLOW_THREADS
}

static void
ring(Appender *self, int bell, int count)
{
    uint64_t *words = self->map + BELLS + 2 * bell;
    uint64_t now = (uint64_t)now_ns();
    if (is_mapped(self) && now - load(words + 1) < HEARD_NS) {
        store(words, now);
        syscall(SYS_futex, words, FUTEX_WAKE, count, NULL, NULL, 0);
    }
}

/* -- texts ---------------------------------------------------------------------------------------------------------- */

static const char DIGITS[] = "0123456789abcdef";

static char *
put_hex(char *out, const uint8_t *data, int count)
{
    for (int i = 0; i < count; i++) {
        *out++ = DIGITS[data[i] >> 4];
        *out++ = DIGITS[data[i] & 15];
    }
    return out;
}

static char *
put_number(char *out, uint64_t value)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (count) {
        *out++ = digits[--count];
    }
    return out;
}

static char *
put_bytes(char *out, const char *data, size_t size)
{
    memcpy(out, data, size);
    return out + size;
}

#define PUT(out, text) put_bytes(out, text, sizeof(text) - 1)

static char *
put_digits(char *out, int64_t value, int count)
{
    for (int i = count - 1; i >= 0; i--, value /= 10) {
        out[i] = (char)('0' + value % 10);
    }
    return out + count;
}

/* RFC 3339 with milliseconds, 24 bytes: as base.clock.format_ms. */
static char *
put_time(char *out, int64_t ms)
{
    int64_t seconds = ms / 1000, days = seconds / 86400, of_day = seconds % 86400;
    days += 719468; /* in eras of 400 years that begin on 1 March */
    int64_t era = days / 146097, day_of_era = days % 146097;
    int64_t year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
    int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    out = put_digits(out, year + era * 400 + (month <= 2), 4);
    *out++ = '-';
    out = put_digits(out, month, 2);
    *out++ = '-';
    out = put_digits(out, day, 2);
    *out++ = 'T';
    out = put_digits(out, of_day / 3600, 2);
    *out++ = ':';
    out = put_digits(out, of_day / 60 % 60, 2);
    *out++ = ':';
    out = put_digits(out, of_day % 60, 2);
    *out++ = '.';
    out = put_digits(out, ms % 1000, 3);
    *out++ = 'Z';
    return out;
}

/* ,"sum":"…"} behind the body, and the leaf: SHA-256 over a zero byte and the body (RFC 9162 §2.1.1). */
static char *
put_seal(const char *body, char *out, uint8_t leaf[32])
{
    Hash hash;
    begin(&hash);
    feed(&hash, (const uint8_t *)"", 1);
    feed(&hash, (const uint8_t *)body, (size_t)(out - body));
    finish(&hash, leaf);
    out = PUT(out, ",\"sum\":\"");
    out = put_hex(out, leaf, 8);
    return PUT(out, "\"}");
}

/* Whether data is count whole lines whose checksums hold, the last of them the record last_seq: as record.are_sealed. */
static int
are_sealed(const char *data, size_t size, uint64_t count, uint64_t last_seq)
{
    const char *at = data, *stop = data + size, *last = data;
    char begins[64], trailer[TRAILER];
    uint8_t leaf[32];
    uint64_t found = 0;
    for (; at < stop; found++) {
        const char *newline = memchr(at, '\n', (size_t)(stop - at));
        if (newline == NULL || newline - at < TRAILER) {
            return 0;
        }
        Hash hash;
        begin(&hash);
        feed(&hash, (const uint8_t *)"", 1);
        feed(&hash, (const uint8_t *)at, (size_t)(newline - TRAILER - at));
        finish(&hash, leaf);
        char *out = PUT(trailer, ",\"sum\":\"");
        out = put_hex(out, leaf, 8);
        PUT(out, "\"}");
        if (memcmp(trailer, newline - TRAILER, TRAILER) != 0) {
            return 0;
        }
        last = at;
        at = newline + 1;
    }
    if (found != count) {
        return 0;
    }
    char *out = PUT(begins, "{\"v\":2,\"seq\":");
    out = put_number(out, last_seq);
    *out++ = ',';
    size_t length = (size_t)(out - begins);
    return count == 0 || ((size_t)(stop - last) > length && memcmp(last, begins, length) == 0);
}

/* -- files ---------------------------------------------------------------------------------------------------------- */

static Stamp
stamp_of(const struct stat *status)
{
    Stamp stamp = {
        (uint64_t)status->st_dev, (uint64_t)status->st_ino,
        status->st_mtim.tv_sec * 1000000000LL + status->st_mtim.tv_nsec,
        status->st_ctim.tv_sec * 1000000000LL + status->st_ctim.tv_nsec,
    };
    return stamp;
}

static int
is_same_folder(Appender *self, int which)
{
    struct stat status;
    if (fstat(self->folder_fds[which], &status) != 0) {
        return 0;
    }
    Stamp stamp = stamp_of(&status);
    return memcmp(&stamp, &self->stamps[which], sizeof stamp) == 0;
}

/* Whether the file that is written to is still the one that the name leads to. */
static int
is_found(Appender *self)
{
    struct stat status;
    return stat(self->path, &status) == 0 && (uint64_t)status.st_dev == self->device
           && (uint64_t)status.st_ino == self->inode;
}

static int
is_in_place(Appender *self, int is_folder_known)
{
    return (is_folder_known && is_same_folder(self, 1)) || is_found(self);
}

static void
shut(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void
close_all(Appender *self)
{
    if (self->map != NULL) {
        munmap(self->map, MAP_BYTES);
        self->map = NULL;
    }
    int *fds[] = {&self->lock_fd, &self->lead_fd, &self->segment_fd, &self->mark_fd, self->folder_fds,
                  self->folder_fds + 1};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        shut(fds[i]);
    }
    self->is_held = self->is_leading = 0;
}

static int
open_as(const char *path, uint64_t device, uint64_t inode)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_dev != device || (uint64_t)status.st_ino != inode
        || !S_ISREG(status.st_mode)) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

static int
copy_of(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* -- under the writers' lock ---------------------------------------------------------------------------------------- */

/* Say in the lock's file who holds it, where it says anything else or has said it for long. Advice: nothing fails. */
static void
sign(Appender *self)
{
    char found[TEXT_BYTES];
    int64_t now = now_ns();
    if (now - self->text_ns < SIGNED_NS && pread(self->lock_fd, found, TEXT_BYTES, 0) == TEXT_BYTES
        && memcmp(found, self->text, TEXT_BYTES) == 0) {
        return;
    }
    struct timespec day;
    clock_gettime(CLOCK_REALTIME, &day);
    char line[3 * TEXT_BYTES], *out = put_bytes(line, self->who, strlen(self->who));
    *out++ = ' ';
    out = put_time(out, day.tv_sec * 1000LL + day.tv_nsec / 1000000);
    *out++ = ' ';
    out = put_bytes(out, self->command, strlen(self->command));
    size_t length = (size_t)(out - line);
    memset(self->text, ' ', TEXT_BYTES);
    memcpy(self->text, line, length < TEXT_BYTES - 1 ? length : TEXT_BYTES - 1);
    self->text[TEXT_BYTES - 1] = '\n';
    self->text_ns = now;
    if (pwrite(self->lock_fd, self->text, TEXT_BYTES, 0) < 0) {
        self->text_ns = 0;
    }
}

static void
unlock(Appender *self)
{
    if (self->is_held) {
        self->is_held = 0;
        if (flock(self->lock_fd, LOCK_UN) != 0) {
            shut(&self->lock_fd); /* a lock ends with its descriptor, whatever the system says of the unlocking */
        }
        ring(self, 0, 1);
    }
}

/* Somebody has waited for long: let him go first, for a flock goes to whoever asks when it is free. */
static void
let_hungry_go_first(Appender *self)
{
    struct timespec pause = {0, YIELD_NS};
    if ((uint64_t)now_ns() - load(self->map + HUNGRY) < HUNGRY_NS) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
    }
}

static int
try_lock(Appender *self)
{
    self->is_held = flock(self->lock_fd, LOCK_EX | LOCK_NB) == 0;
    return self->is_held;
}

/* Whether somebody rings within SPIN_NS; not asked where there is one processor, for then he could not. */
static int
is_rung_soon(Appender *self, uint32_t heard)
{
    static int processors = 0;
    int is_rung = 0;
    processors = processors ? processors : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 2) {
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t until = now_ns() + SPIN_NS; !is_rung && now_ns() < until;) {
        is_rung = (uint32_t)load(self->map + BELLS) != heard;
    }
    Py_END_ALLOW_THREADS
    return is_rung;
}

/* 1 with the lock, 0 where it was not had in patience_ns or cannot be had, -1 with an exception. */
static int
lock(Appender *self, int64_t patience_ns)
{
    int64_t begun = now_ns();
    if (!is_mapped(self)) {
        return 0;
    }
    let_hungry_go_first(self);
    while (is_mapped(self)) {
        uint32_t heard = (uint32_t)load(self->map + BELLS);
        if (try_lock(self)) {
            return 1;
        }
        int is_taken = errno == EWOULDBLOCK;
        int64_t waited = now_ns() - begun;
        if (!is_taken || waited >= patience_ns) {
            return 0;
        }
        if (waited >= HUNGRY_NS) {
            store(self->map + HUNGRY, (uint64_t)(begun + waited));
        }
        listen_to(self, 0);
        if ((uint32_t)load(self->map + BELLS) != heard) {
            continue;
        }
        if (try_lock(self)) { /* given back before it was known that we listen */
            return 1;
        }
        if (is_rung_soon(self, heard)) {
            continue;
        }
        sleep_by(self, 0, heard, LOCK_RING_NS);
        if (PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether all is as it was validated, but for whole lines that others wrote behind it: these, b"" for none; NULL else. */
static PyObject *
validated(Appender *self)
{
    if (!is_same_folder(self, 0) || !is_same_folder(self, 1) || !is_mapped(self)) {
        return NULL;
    }
    off_t size = lseek(self->segment_fd, 0, SEEK_END);
    if (self->is_agreed && words_are(self, self->agreed)) { /* nobody wrote, led or failed */
        if (self->agreed[END_OF_WRITTEN] >> 16 == self->end && (uint64_t)size == self->end
            && (self->agreed[WRITTEN] >> 16) + 1 == self->next_seq) {
            self->batch_epoch = self->agreed[EPOCH] >> 16;
            return PyBytes_FromStringAndSize(NULL, 0);
        }
    }
    self->is_agreed = 0;
    uint64_t epoch, segment, poisoned, written, end, durable;
    if (!get(self, EPOCH, 0, &epoch) || !epoch || !get(self, SEGMENT, epoch, &segment) || segment != self->segment
        || !get(self, POISONED, epoch, &poisoned) || poisoned != 0 || !get(self, WRITTEN, epoch, &written)
        || !get(self, END_OF_WRITTEN, epoch, &end) || !get(self, DURABLE, epoch, &durable) || durable > written
        || written + 1 < self->next_seq || end < self->end || end - self->end > ADDED_BYTES_MAX
        || (uint64_t)size != end || self->end < TRAILER + 1) {
        return NULL;
    }
    size_t before = TRAILER + 1, length = end - self->end;
    PyObject *added = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (added == NULL) {
        PyErr_Clear();
        return NULL;
    }
    char last[TRAILER + 1], *data = PyBytes_AS_STRING(added);
    uint64_t count = written + 1 - self->next_seq;
    int is_sound;
    Py_BEGIN_ALLOW_THREADS
    is_sound = pread(self->segment_fd, last, before, (off_t)(self->end - before)) == (ssize_t)before
               && memcmp(last + 8, self->sum, 16) == 0
               && (length == 0 || pread(self->segment_fd, data, length, (off_t)self->end) == (ssize_t)length)
               && (length == 0) == (count == 0) && are_sealed(data, length, count, written);
    Py_END_ALLOW_THREADS
    if (!is_sound) {
        Py_DECREF(added);
        return NULL;
    }
    self->batch_epoch = epoch;
    self->end = end;
    self->next_seq = written + 1;
    self->durable = durable > self->durable ? durable : self->durable;
    if (length) {
        memcpy(self->sum, data + length - 19, 16);
    }
    return added;
}

PyDoc_STRVAR(enter_doc,
"enter(owner, patience_s, end, durable)\n--\n\n"
"Take the writers' lock with the view's end, a Position, there: the whole lines that others wrote behind it, None without\n"
"the lock, and where the segment is another or full.\n"
"let_go(owner) gives back what was taken, also where an exception came when this was done; a stranger's gives back nothing.");

static PyObject *
appender_enter(Appender *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4 || !PyTuple_Check(arguments[2]) || PyTuple_GET_SIZE(arguments[2]) != 4
        || !PyUnicode_Check(PyTuple_GET_ITEM(arguments[2], 3))) {
        PyErr_SetString(PyExc_TypeError, "enter(owner, patience_s, end, durable)");
        return NULL;
    }
    if (self->is_busy || self->map == NULL || self->is_closing || self->pid != getpid()) {
        Py_RETURN_NONE;
    }
    Py_ssize_t size;
    PyObject **position = ((PyTupleObject *)arguments[2])->ob_item;
    const char *sum = PyUnicode_AsUTF8AndSize(position[3], &size);
    double patience_s = PyFloat_AsDouble(arguments[1]);
    uint64_t segment = PyLong_AsUnsignedLongLong(position[0]), end = PyLong_AsUnsignedLongLong(position[1]);
    uint64_t next_seq = PyLong_AsUnsignedLongLong(position[2]), durable = PyLong_AsUnsignedLongLong(arguments[3]);
    if (sum == NULL || PyErr_Occurred()) {
        return NULL;
    }
    int64_t patience_ns = patience_s >= TURN_NS / 1e9 ? TURN_NS : patience_s > 0 ? (int64_t)(patience_s * 1e9) : 0;
    if (size != 16 || next_seq == 0 || segment != self->segment || end >= self->segment_bytes) {
        Py_RETURN_NONE;
    }
    self->is_busy = 1;
    Py_XSETREF(self->owner, Py_NewRef(arguments[0]));
    int is_had = lock(self, patience_ns);
    if (is_had > 0) {
        self->end = end, self->next_seq = next_seq, self->durable = durable;
        memcpy(self->sum, sum, 16);
        PyObject *added = validated(self);
        if (added != NULL) {
            sign(self);
            return added;
        }
        unlock(self);
    }
    self->is_busy = 0;
    if (is_had < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

typedef struct {
    const char *data;
    Py_ssize_t size;
} Text;

static int
text_of(PyObject *value, Text *text)
{
    if (PyBytes_Check(value)) {
        text->data = PyBytes_AS_STRING(value);
        text->size = PyBytes_GET_SIZE(value);
        return 1;
    }
    text->data = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &text->size) : NULL;
    if (text->data == NULL) {
        PyErr_Clear(); /* the long way says what is wrong with it */
    }
    return text->data != NULL;
}

static char *
put_base64(char *out, const uint8_t *data, size_t size)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)data[i] << 16;
        three |= i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0;
        three |= i + 2 < size ? data[i + 2] : 0;
        *out++ = LETTERS[three >> 18];
        *out++ = LETTERS[three >> 12 & 63];
        *out++ = i + 1 < size ? LETTERS[three >> 6 & 63] : '=';
        *out++ = i + 2 < size ? LETTERS[three & 63] : '=';
    }
    return out;
}

/* The texts of a record, as put_line takes them. */
enum { WRITER, SESSION, ACTION, ITEM_TYPE, ITEM_ID, KEY, SALT, SUMMARY, PAYLOAD, TEXTS };
/* The fields of transaction.Draft. */
enum { D_ACTION, D_TYPE, D_ID, D_PARENTS, D_PAYLOAD, D_DELETED, D_SUMMARY, D_VERSION, D_AFTER, D_INLINE_MAX, D_FIELDS };
#define SALT_BYTES 16
#define KEY_BYTES 10

/* A member with a text, where there is one. */
static char *
put_member(char *out, const char *name, Text text)
{
    if (text.size) {
        *out++ = ',';
        *out++ = '"';
        out = put_bytes(out, name, strlen(name));
        out = PUT(out, "\":\"");
        out = put_escaped(out, text.data, text.size);
        *out++ = '"';
    }
    return out;
}

/* The record's line, with its newline: in the order and form of record.Record. */
static char *
put_line(Appender *self, char *line, const Text texts[TEXTS], const Text *parents, Py_ssize_t parent_count,
         int64_t time_ms, int is_deleted)
{
    char *out = PUT(line, "{\"v\":2,\"seq\":");
    out = put_number(out, self->next_seq);
    out = PUT(out, ",\"ts\":\"");
    out = put_time(out, time_ms);
    out = PUT(out, "\",");
    out = put_bytes(out, texts[WRITER].data, (size_t)texts[WRITER].size);
    out = put_member(out, "action", texts[ACTION]);
    out = put_bytes(out, texts[SESSION].data, (size_t)texts[SESSION].size);
    out = put_member(out, "item_type", texts[ITEM_TYPE]);
    out = put_member(out, "item_id", texts[ITEM_ID]);
    if (parent_count) {
        out = PUT(out, ",\"parents\":[");
        for (Py_ssize_t i = 0; i < parent_count; i++) {
            *out++ = '"';
            out = put_escaped(out, parents[i].data, parents[i].size);
            *out++ = '"';
            *out++ = ',';
        }
        out[-1] = ']';
    }
    out = put_member(out, "key", texts[KEY]);
    out = PUT(out, ",\"salt\":\"");
    out = put_base64(out, (const uint8_t *)texts[SALT].data, (size_t)texts[SALT].size);
    *out++ = '"';
    out = put_member(out, "summary", texts[SUMMARY]);
    if (!is_deleted) {
        out = PUT(out, ",\"payload\":");
        out = put_bytes(out, texts[PAYLOAD].data, (size_t)texts[PAYLOAD].size);
    } else {
        out = PUT(out, ",\"deleted\":true");
    }
    if (self->durable) {
        out = PUT(out, ",\"durable\":");
        out = put_number(out, self->durable);
    }
    out = put_seal(line, out, self->leaf);
    *out++ = '\n';
    return out;
}

/* A value of a NamedTuple's class; takes over the references of values, NULL among them tells of an error. */
static PyObject *
made(PyTypeObject *kind, PyObject **values, Py_ssize_t count)
{
    PyObject *plain = PyTuple_New(count), *result = NULL;
    int is_whole = plain != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        is_whole &= values[i] != NULL;
        if (plain != NULL) {
            PyTuple_SET_ITEM(plain, i, values[i]);
        } else {
            Py_XDECREF(values[i]);
        }
    }
    if (is_whole) {
        PyObject *arguments = PyTuple_Pack(1, plain);
        result = arguments != NULL ? PyTuple_Type.tp_new(kind, arguments, NULL) : NULL;
        Py_XDECREF(arguments);
    }
    Py_XDECREF(plain);
    return result;
}

/* SALT_BYTES and KEY_BYTES of chance; NULL, with an exception, where the system has none. */
static const uint8_t *
chance(Appender *self)
{
    const size_t each = SALT_BYTES + KEY_BYTES;
    if (self->chance_left < each) {
        if (getrandom(self->chance, sizeof self->chance, 0) != (ssize_t)sizeof self->chance) {
            PyErr_SetFromErrno(PyExc_OSError);
            return NULL;
        }
        self->chance_left = sizeof self->chance;
    }
    self->chance_left -= each;
    return self->chance + self->chance_left;
}

/* (Added, Position, Receipt) of what was written. */
static PyObject *
account(Appender *self, PyObject *line, PyObject *key, PyObject *version)
{
    PyObject *seq = PyLong_FromUnsignedLongLong(self->batch_seq), *segment = PyLong_FromUnsignedLongLong(self->segment);
    PyObject *added[] = {Py_XNewRef(segment), PyLong_FromUnsignedLongLong(self->batch_start), Py_XNewRef(seq),
                         PyLong_FromLong(1), Py_NewRef(line)};
    PyObject *position[] = {Py_XNewRef(segment), PyLong_FromUnsignedLongLong(self->end),
                            PyLong_FromUnsignedLongLong(self->next_seq), PyUnicode_FromStringAndSize(self->sum, 16)};
    PyObject *receipt[] = {Py_NewRef(key), Py_NewRef(self->lineage_text), Py_XNewRef(seq), Py_XNewRef(seq),
                           PyTuple_Pack(1, version), Py_NewRef(Py_False)};
    PyObject *all[] = {made(self->kinds[0], added, 5), made(self->kinds[1], position, 4), made(self->kinds[2], receipt, 6)};
    Py_XDECREF(seq);
    Py_XDECREF(segment);
    return made(&PyTuple_Type, all, 3);
}

PyDoc_STRVAR(append_doc,
"append(head, session, draft, salt, key, time_ms)\n--\n\n"
"Under the lock, write draft as one record: its Added, Position and Receipt; None where it takes the long way, the number\n"
"of bytes after a short write. salt and time_ms are made here where salt is None, key where it is empty. Raises OSError.");

static PyObject *
appender_append(Appender *self, PyObject *const *arguments, Py_ssize_t count)
{
    Text texts[TEXTS], parents[8];
    if (count != 6 || !PyTuple_Check(arguments[2]) || PyTuple_GET_SIZE(arguments[2]) != D_FIELDS || !self->is_held) {
        PyErr_SetString(PyExc_TypeError, "append: not under the lock, or other arguments than it takes");
        return NULL;
    }
    if (self->end >= self->segment_bytes || self->pid != getpid()
        || lseek(self->segment_fd, 0, SEEK_END) != (off_t)self->end) { /* somebody wrote who asked for no lock */
        Py_RETURN_NONE;
    }
    PyObject **draft = ((PyTupleObject *)arguments[2])->ob_item, *key = arguments[4];
    if (!PyUnicode_Check(key) || !PyTuple_Check(draft[D_PARENTS]) || !PyTuple_Check(draft[D_AFTER]) || PyTuple_GET_SIZE(draft[D_AFTER]) != 0
        || !PyUnicode_Check(draft[D_VERSION]) || PyUnicode_GET_LENGTH(draft[D_VERSION]) == 0) {
        Py_RETURN_NONE;
    }
    int64_t time_ms = PyLong_AsLongLong(arguments[5]), inline_max = PyLong_AsLongLong(draft[D_INLINE_MAX]);
    int is_deleted = PyObject_IsTrue(draft[D_DELETED]), is_ours = arguments[3] == Py_None;
    int is_key_ours = is_ours && PyUnicode_GET_LENGTH(key) == 0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    const uint8_t *random = NULL;
    char key_text[2 * KEY_BYTES];
    if (is_ours) {
        struct timespec day;
        random = chance(self);
        if (random == NULL) {
            return NULL;
        }
        clock_gettime(CLOCK_REALTIME, &day);
        time_ms = day.tv_sec * 1000LL + day.tv_nsec / 1000000;
        put_hex(key_text, random + SALT_BYTES, KEY_BYTES);
    }
    if (time_ms < 0 || time_ms >= 253402300800000LL) { /* the years that the long way knows */
        Py_RETURN_NONE;
    }
    PyObject *sources[TEXTS] = {arguments[0], arguments[1], draft[D_ACTION], draft[D_TYPE], draft[D_ID], key,
                                arguments[3], draft[D_SUMMARY], draft[D_PAYLOAD]};
    size_t room = 640;
    for (int i = 0; i < TEXTS; i++) {
        if (i == SALT && is_ours) {
            texts[i].data = (const char *)random, texts[i].size = SALT_BYTES;
        } else if (i == KEY && is_key_ours) {
            texts[i].data = key_text, texts[i].size = 2 * KEY_BYTES;
        } else if (i == PAYLOAD && sources[i] == Py_None) {
            texts[i].data = "null", texts[i].size = 4;
        } else if (!text_of(sources[i], texts + i) || texts[i].size > LINE_BYTES_MAX) {
            Py_RETURN_NONE;
        }
        room += (size_t)texts[i].size * (i == WRITER || i == SESSION || i == PAYLOAD ? 1 : 6);
    }
    Py_ssize_t parent_count = PyTuple_GET_SIZE(draft[D_PARENTS]);
    if (parent_count > 8 || texts[PAYLOAD].size > inline_max
        || memchr(texts[PAYLOAD].data, '\n', (size_t)texts[PAYLOAD].size) != NULL) {
        Py_RETURN_NONE;
    }
    for (Py_ssize_t i = 0; i < parent_count; i++) {
        if (!text_of(PyTuple_GET_ITEM(draft[D_PARENTS], i), parents + i) || parents[i].size > 1000) {
            Py_RETURN_NONE;
        }
        room += (size_t)parents[i].size * 6 + 3;
    }
    char *line = PyMem_Malloc(room);
    if (line == NULL) {
        return PyErr_NoMemory();
    }
    size_t length = (size_t)(put_line(self, line, texts, parents, parent_count, time_ms, is_deleted) - line);
    if (length > LINE_BYTES_MAX) {
        PyMem_Free(line);
        Py_RETURN_NONE;
    }
    PyObject *result = PyBytes_FromStringAndSize(line, (Py_ssize_t)length);
    PyMem_Free(line);
    PyObject *key_used = is_key_ours ? PyUnicode_FromStringAndSize(key_text, 2 * KEY_BYTES) : Py_NewRef(key);
    if (result == NULL || key_used == NULL) {
        Py_XDECREF(result);
        Py_XDECREF(key_used);
        return NULL;
    }
    ssize_t written;
    int error;
    Py_BEGIN_ALLOW_THREADS
    do {
        written = write(self->segment_fd, PyBytes_AS_STRING(result), length);
    } while (written < 0 && errno == EINTR);
    error = errno;
    Py_END_ALLOW_THREADS
    if (written != (ssize_t)length) {
        Py_DECREF(result);
        Py_DECREF(key_used);
        errno = error;
        return written < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromSsize_t(written);
    }
    uint64_t epoch = self->batch_epoch;
    self->batch_start = self->end;
    self->batch_end = self->end += length;
    self->batch_seq = self->next_seq++;
    put_hex(self->sum, self->leaf, 8);
    if (is_mapped(self)) {
        self->is_left = self->is_agreed && words_are(self, self->agreed);
        memcpy(self->left, self->agreed, sizeof self->left);
        self->left[END_OF_WRITTEN] = put(self, END_OF_WRITTEN, self->batch_end, epoch);
        self->left[WRITTEN] = put(self, WRITTEN, self->batch_seq, epoch);
    } else {
        self->is_left = 0;
    }
    if (self->is_left) { /* else others' bytes are on the way, and a sync of these is near */
        Py_BEGIN_ALLOW_THREADS
        posix_fadvise(self->segment_fd, (off_t)self->batch_start, (off_t)length, POSIX_FADV_DONTNEED);
        Py_END_ALLOW_THREADS
    }
    PyObject *told = account(self, result, key_used, draft[D_VERSION]);
    Py_DECREF(result);
    Py_DECREF(key_used);
    return told;
}

/* -- until it is durable -------------------------------------------------------------------------------------------- */

static int
is_alone(Appender *self)
{
    return self->is_left && words_are(self, self->left);
}

static void
put_mark(Appender *self)
{
    char mark[MARK_BYTES + 200], *out = PUT(mark, "{\"lineage\":\"");
    uint8_t unused[32];
    out = put_bytes(out, self->lineage, strlen(self->lineage));
    out = PUT(out, "\",\"segment\":");
    out = put_number(out, self->segment);
    out = PUT(out, ",\"offset\":");
    out = put_number(out, self->batch_end);
    out = PUT(out, ",\"seq\":");
    out = put_number(out, self->batch_seq);
    out = PUT(out, ",\"leaf\":\"");
    out = put_hex(out, self->leaf, 32);
    *out++ = '"';
    out = put_seal(mark, out, unused);
    memset(out, ' ', (size_t)(mark + sizeof mark - out));
    mark[MARK_BYTES - 1] = '\n';
    if (out <= mark + MARK_BYTES - 1 && pwrite(self->mark_fd, mark, MARK_BYTES, 0) < 0) {
        return; /* the mark may lag: the next record's own "durable" says the same */
    }
}

/* Where others write too, let those whom the last sync set free write what this one covers. -1 with an exception. */
static int
gather(Appender *self, uint64_t before)
{
    uint64_t crowd, pace_us, written;
    if (!get(self, CROWD, self->batch_epoch, &crowd) || crowd <= 1 || !get(self, PACE_US, self->batch_epoch, &pace_us)
        || pace_us < GATHER_PACE_US) {
        return 0;
    }
    int64_t pace_ns = (int64_t)(pace_us < PACE_US_MAX ? pace_us : PACE_US_MAX) * 1000, until = now_ns() + pace_ns;
    int64_t nap = pace_ns / 16 > GATHER_MIN_NS ? pace_ns / 16 : GATHER_MIN_NS;
    struct timespec pause = {nap / 1000000000LL, nap % 1000000000LL};
    while (now_ns() < until && is_mapped(self)) {
        if (!get(self, WRITTEN, self->batch_epoch, &written) || written - before >= crowd) {
            break;
        }
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
    return 0;
}

enum { SLOWLY = 0, REPLACED = -1, FAILED = -1000 }; /* FAILED less the number of the error */

/* Keep the words as they are, where they say that all is durable up to our own batch, in order and whole. */
static void
take_agreed(Appender *self, uint64_t written, uint64_t epoch)
{
    const int words[] = {EPOCH, WRITTEN, DURABLE, POISONED, END_OF_WRITTEN};
    const uint64_t values[] = {epoch, written, written, 0, self->batch_end};
    memcpy(self->agreed, self->map, sizeof self->agreed); /* first, and then the copy is looked at */
    self->is_agreed = written == self->batch_seq;
    for (int i = 0; i < 5; i++) {
        uint64_t raw = values[i] << 16 | crc_of(values[i], seed_of(self, words[i], epoch));
        self->is_agreed &= self->agreed[words[i]] == raw;
    }
}

/* As the leader: make durable what is written up to there, and say so; SLOWLY, REPLACED or FAILED - errno else. */
static int64_t
sync_up_to(Appender *self, uint64_t before, uint64_t written, int is_folder_known)
{
    int was_alone = is_alone(self), failed, error;
    uint64_t epoch = self->batch_epoch, poisoned, known;
    if (!get(self, POISONED, epoch, &poisoned) || poisoned == self->segment
        || (before > self->durable ? before : self->durable) < self->segment) {
        return SLOWLY;
    }
    self->is_agreed = 0;
    if (!was_alone) {
        store(self->map + COVERED, written);
        store(self->map + NUMBER, (load(self->map + NUMBER) + 1) & VALUE_MAX);
    }
    int64_t begun = now_ns();
    Py_BEGIN_ALLOW_THREADS
    do {
        failed = fdatasync(self->segment_fd);
        error = errno;
    } while (failed && error == EINTR);
    Py_END_ALLOW_THREADS
    if (failed) {
        if (is_mapped(self) && is_epoch(self, epoch)) {
            put(self, POISONED, self->segment, epoch);
        }
        return FAILED - error;
    }
    if (!is_in_place(self, is_folder_known)) {
        return REPLACED;
    }
    put_mark(self);
    uint64_t pace_us = (uint64_t)(now_ns() - begun) / 1000;
    pace_us = pace_us < PACE_US_MAX ? pace_us : PACE_US_MAX;
    if (!is_mapped(self)) {
        return (int64_t)written;
    }
    if (was_alone && self->crowd <= 1 && is_alone(self)) { /* nobody did anything meanwhile */
        memcpy(self->agreed, self->left, sizeof self->agreed);
        self->agreed[DURABLE] = put(self, DURABLE, written, epoch);
        self->is_agreed = 1;
    } else if (is_epoch(self, epoch)) {
        if (!get(self, DURABLE, epoch, &known)) {
            known = 0;
        }
        put(self, DURABLE, written > known ? written : known, epoch);
        uint64_t value;
        if (!get(self, PACE_US, epoch, &value) || value * 2 <= pace_us || value >= pace_us * 2) {
            put(self, PACE_US, pace_us, epoch);
        }
        uint64_t now_written;
        int is_whole = get(self, WRITTEN, epoch, &now_written);
        uint64_t crowd = is_whole && now_written > before + 1 ? now_written - before : 1;
        if (!get(self, CROWD, epoch, &value) || value != crowd) {
            put(self, CROWD, crowd, epoch);
        }
        self->crowd = crowd;
        if (is_whole && now_written == written && written > known) {
            take_agreed(self, written, epoch);
        }
    }
    return (int64_t)written;
}

static void
stop_leading(Appender *self)
{
    self->is_leading = 0;
    if (flock(self->lead_fd, LOCK_UN) != 0) {
        shut(&self->lead_fd); /* as for the writers' lock; without it nothing is mapped any more */
    }
}

static void
ring_done(Appender *self)
{
    if (is_mapped(self)) {
        uint64_t number = load(self->map + NUMBER);
        ring(self, 1 + (int)(number & 1), INT_MAX);
        ring(self, 1 + (int)((number + 1) & 1), 1);
    }
}

/* With the leader's lock: as FlushMap._lead. Gives what is durable then, or why not. */
static int64_t
lead(Appender *self, int is_folder_known)
{
    uint64_t epoch = self->batch_epoch, before, written, segment;
    if (is_alone(self)) {
        return sync_up_to(self, self->batch_seq - 1, self->batch_seq, is_folder_known);
    }
    if (!is_epoch(self, epoch) || !get(self, DURABLE, epoch, &before)) {
        return SLOWLY;
    }
    if (before >= self->batch_seq) {
        return is_in_place(self, is_folder_known) ? (int64_t)before : SLOWLY;
    }
    if (gather(self, before) < 0) {
        return SLOWLY;
    }
    /* "written" before the segment: a roll says what is durable before it changes the segment, and that first. */
    if (!is_mapped(self) || !get(self, WRITTEN, epoch, &written) || written < self->batch_seq
        || !get(self, SEGMENT, epoch, &segment) || segment != self->segment) {
        return SLOWLY;
    }
    return sync_up_to(self, before, written, is_folder_known);
}

/* Wait until the batch is durable, leading where nobody else does: as FlushMap.wait. */
static int64_t
wait_for_it(Appender *self, int is_folder_known)
{
    uint64_t epoch = self->batch_epoch, durable, pace_us;
    int64_t begun = 0;
    int bell = 0;
    uint32_t heard = 0;
    while (1) {
        if (!is_mapped(self) || !is_epoch(self, epoch) || !get(self, DURABLE, epoch, &durable)) {
            return SLOWLY;
        }
        uint64_t written;
        if (!get(self, WRITTEN, epoch, &written) || durable > written) {
            return SLOWLY; /* nothing is durable that was not written */
        }
        if (durable >= self->batch_seq) {
            return is_in_place(self, is_folder_known) ? (int64_t)durable : SLOWLY;
        }
        if (flock(self->lead_fd, LOCK_EX | LOCK_NB) == 0) {
            self->is_leading = 1;
            int was_alone = is_alone(self);
            int64_t found = lead(self, is_folder_known);
            if (found < 0) {
                return found; /* the lock is given back when the segment is marked */
            }
            stop_leading(self);
            if (!(was_alone && self->is_agreed)) {
                ring_done(self);
            }
            return found;
        }
        int is_taken = errno == EWOULDBLOCK;
        int64_t now = now_ns();
        begun = begun ? begun : now;
        if (!is_taken || now - begun >= LEADER_PATIENCE_NS) {
            return SLOWLY;
        }
        if (bell) {
            int64_t nap = get(self, PACE_US, epoch, &pace_us) && pace_us < PACE_US_MAX ? (int64_t)pace_us * 4000 : RING_MAX_NS;
            nap = nap < RING_NS ? RING_NS : nap > RING_MAX_NS ? RING_MAX_NS : nap;
            sleep_by(self, bell, heard, nap);
            if (PyErr_CheckSignals() < 0 || !is_mapped(self)) {
                return SLOWLY;
            }
        }
        uint64_t number = load(self->map + NUMBER) + (load(self->map + COVERED) >= self->batch_seq ? 0 : 1);
        bell = 1 + (int)(number & 1);
        heard = listen_to(self, bell); /* and look again, before any sleep */
    }
}

PyDoc_STRVAR(finish_doc,
"finish()\n--\n\n"
"Give the writers' lock back and wait until what was written is durable; gives up to where all is: 0 where the long way\n"
"has to find out, -1 where the segment was replaced, -1000 less the number of the error where the sync failed. After\n"
"both, let_go gives the leader's lock back. Raises what a signal's handler raises.");

static PyObject *
appender_finish(Appender *self, PyObject *Py_UNUSED(ignored))
{
    unlock(self);
    int is_folder_known = is_found(self); /* that the folders are where they were */
    int64_t found = wait_for_it(self, is_folder_known);
    if (PyErr_Occurred()) {
        return NULL;
    }
    return PyLong_FromLongLong(found);
}

PyDoc_STRVAR(let_go_doc, "let_go(owner)\n--\n\nBe done with the mutation that owner entered for, whatever became of it: no lock is held.");

static PyObject *
appender_let_go(Appender *self, PyObject *owner)
{
    if (!self->is_busy || owner != self->owner) {
        Py_RETURN_NONE;
    }
    if (self->pid == getpid() && self->map != NULL) {
        unlock(self);
        if (self->is_leading) {
            stop_leading(self);
            ring_done(self);
        }
    }
    self->is_leading = self->is_busy = 0;
    if (self->is_closing) {
        close_all(self);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nUse nothing of this any more; what runs in another thread comes to its end first.");

static PyObject *
appender_close(Appender *self, PyObject *Py_UNUSED(ignored))
{
    self->is_closing = 1;
    if (!self->is_busy || self->pid != getpid()) {
        close_all(self);
    }
    Py_RETURN_NONE;
}

/* -- the type ------------------------------------------------------------------------------------------------------- */

static int
stamp_from(PyObject *value, Stamp *stamp)
{
    unsigned long long device, inode;
    long long modified, changed;
    if (!PyArg_ParseTuple(value, "KKLL", &device, &inode, &modified, &changed)) {
        return 0;
    }
    Stamp found = {device, inode, modified, changed};
    *stamp = found;
    return 1;
}

static PyObject *
appender_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    static char *names[] = {"lock", "lock_place", "flush", "flush_place", "segment_fd", "segment", "path", "place",
                            "mark_fd", "folders", "lineage", "segment_bytes", "who", "command", "kinds", NULL};
    const char *lock_path, *flush_path, *path, *lineage, *who, *command;
    unsigned long long lock_device, lock_inode, flush_device, flush_inode, device, inode, segment, segment_bytes;
    int segment_fd, mark_fd, folders[2];
    PyObject *stamps[2], *kinds[3];
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "s(KK)s(KK)iKs(KK)i((iO!)(iO!))sKyy(OOO)", names, &lock_path,
                                     &lock_device, &lock_inode, &flush_path, &flush_device, &flush_inode, &segment_fd,
                                     &segment, &path, &device, &inode, &mark_fd, &folders[0], &PyTuple_Type, &stamps[0],
                                     &folders[1], &PyTuple_Type, &stamps[1], &lineage, &segment_bytes, &who, &command,
                                     &kinds[0], &kinds[1], &kinds[2])) {
        return NULL;
    }
    if (strlen(path) >= PATH_MAX || strlen(lineage) >= sizeof ((Appender *)0)->lineage
        || strlen(who) >= TEXT_BYTES || strlen(command) >= TEXT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a text is too long");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (!PyType_Check(kinds[i]) || !PyType_IsSubtype((PyTypeObject *)kinds[i], &PyTuple_Type)) {
            PyErr_SetString(PyExc_TypeError, "kinds are classes of tuples");
            return NULL;
        }
    }
    Appender *self = (Appender *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->lock_fd = self->lead_fd = self->segment_fd = self->mark_fd = self->folder_fds[0] = self->folder_fds[1] = -1;
    self->pid = getpid();
    self->segment = segment, self->segment_bytes = segment_bytes;
    self->device = device, self->inode = inode;
    strcpy(self->path, path);
    strcpy(self->lineage, lineage);
    strcpy(self->who, who);
    strcpy(self->command, command);
    for (int i = 0; i < 3; i++) {
        self->kinds[i] = (PyTypeObject *)Py_NewRef(kinds[i]);
    }
    self->lineage_text = PyUnicode_FromString(lineage);
    if (self->lineage_text == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    if (!stamp_from(stamps[0], &self->stamps[0]) || !stamp_from(stamps[1], &self->stamps[1])) {
        Py_DECREF(self);
        return NULL;
    }
    if ((self->lock_fd = open_as(lock_path, lock_device, lock_inode)) < 0
        || (self->lead_fd = open_as(flush_path, flush_device, flush_inode)) < 0
        || (self->segment_fd = copy_of(segment_fd)) < 0 || (self->mark_fd = copy_of(mark_fd)) < 0
        || (self->folder_fds[0] = copy_of(folders[0])) < 0 || (self->folder_fds[1] = copy_of(folders[1])) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    if (lseek(self->lead_fd, 0, SEEK_END) < MAP_BYTES) {
        PyErr_SetString(PyExc_ValueError, "the map is not whole");
        Py_DECREF(self);
        return NULL;
    }
    void *map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, self->lead_fd, 0);
    if (map == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->map = map;
    return (PyObject *)self;
}

static void
appender_dealloc(Appender *self)
{
    close_all(self);
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(self->kinds[i]);
    }
    Py_XDECREF(self->lineage_text);
    Py_XDECREF(self->owner);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

#define NUMBER_GETTER(name, field) \
    static PyObject *appender_##name(Appender *self, void *Py_UNUSED(closure)) \
    { return PyLong_FromUnsignedLongLong(self->field); }
NUMBER_GETTER(end, end)
NUMBER_GETTER(next_seq, next_seq)
NUMBER_GETTER(durable, durable)
NUMBER_GETTER(epoch, batch_epoch)

static PyObject *
appender_sum(Appender *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromStringAndSize(self->sum, 16);
}

static PyObject *
appender_leaf(Appender *self, void *Py_UNUSED(closure))
{
    return PyBytes_FromStringAndSize((const char *)self->leaf, 32);
}

static PyGetSetDef appender_getters[] = {
    {"end", (getter)appender_end, NULL, "Where the segment ends, in bytes.", NULL},
    {"next_seq", (getter)appender_next_seq, NULL, "The seq of the next record.", NULL},
    {"durable", (getter)appender_durable, NULL, "The highest seq that was known to be durable under the lock.", NULL},
    {"epoch", (getter)appender_epoch, NULL, "The flush map's.", NULL},
    {"sum", (getter)appender_sum, NULL, "Of the last record.", NULL},
    {"leaf", (getter)appender_leaf, NULL, "Of the record that was written last.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef appender_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))appender_enter, METH_FASTCALL, enter_doc},
    {"append", (PyCFunction)(void (*)(void))appender_append, METH_FASTCALL, append_doc},
    {"finish", (PyCFunction)appender_finish, METH_NOARGS, finish_doc},
    {"let_go", (PyCFunction)appender_let_go, METH_O, let_go_doc},
    {"close", (PyCFunction)appender_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject AppenderType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "periplus.journal._append.Appender",
    .tp_doc = PyDoc_STR("Writes to one segment as long as nothing unusual happens to it."),
    .tp_basicsize = sizeof(Appender),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = appender_new,
    .tp_dealloc = (destructor)appender_dealloc,
    .tp_methods = appender_methods,
    .tp_getset = appender_getters,
};

/* -- versions: see record.version_id --------------------------------------------------------------------------------- */

/* Whether JSON has the text between quotes without a change. */
static int
stands_as_it_is(Text text)
{
    for (Py_ssize_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] > 0x7E || text.data[i] == '"' || text.data[i] == '\\') {
            return 0;
        }
    }
    return 1;
}

/* The id of a version, 64 digits; 0 where a text takes the long way. Parents are sorted. */
static int
put_version(char text[64], Text item_type, Text item_id, Text payload, int is_deleted, PyObject *parents)
{
    Text parent, before = {"", 0};
    Py_ssize_t count = PyTuple_GET_SIZE(parents);
    char head[2048], *out = PUT(head, "{\"deleted\":");
    if (count > 8 || item_type.size + item_id.size > 1000 || !stands_as_it_is(item_type) || !stands_as_it_is(item_id)) {
        return 0;
    }
    out = put_bytes(out, is_deleted ? "true" : "false", is_deleted ? 4 : 5);
    out = PUT(out, ",\"item_id\":\"");
    out = put_bytes(out, item_id.data, (size_t)item_id.size);
    out = PUT(out, "\",\"item_type\":\"");
    out = put_bytes(out, item_type.data, (size_t)item_type.size);
    out = PUT(out, "\",\"parents\":[");
    for (Py_ssize_t i = 0; i < count; i++, before = parent) {
        if (!text_of(PyTuple_GET_ITEM(parents, i), &parent) || parent.size != 64 || !stands_as_it_is(parent)
            || (i && memcmp(before.data, parent.data, 64) > 0)) {
            return 0;
        }
        out = put_bytes(out, i ? ",\"" : "\"", i ? 2 : 1);
        out = put_bytes(out, parent.data, 64);
        *out++ = '"';
    }
    out = PUT(out, "],\"payload\":");
    Hash hash;
    uint8_t digest[32];
    begin(&hash);
    feed(&hash, (const uint8_t *)head, (size_t)(out - head));
    feed(&hash, (const uint8_t *)payload.data, (size_t)payload.size);
    feed(&hash, (const uint8_t *)"}", 1);
    finish(&hash, digest);
    put_hex(text, digest, 32);
    return 1;
}

/* One line of at most SUMMARY_MAX characters, as transaction._line makes it; NULL, without an exception, else. */
static PyObject *
line_of(PyObject *text)
{
    Text whole;
    char line[4 * SUMMARY_MAX], *out = line;
    if (!is_ascii_text(text) || !text_of(text, &whole)) {
        return NULL;
    }
    int is_between = 0, is_same = 1;
    for (Py_ssize_t i = 0; i < whole.size; i++) {
        char c = whole.data[i];
        is_same &= c >= ' ';
        if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F)) {
            is_between = out > line;
            continue;
        }
        if (out - line > SUMMARY_MAX) {
            break;
        }
        if (is_between) {
            *out++ = ' ';
            is_between = 0;
        }
        *out++ = c;
    }
    if (out - line > SUMMARY_MAX) {
        out = line + SUMMARY_MAX - 1;
        out = PUT(out, "\xE2\x80\xA6"); /* … */
    } else if (is_same && out - line == whole.size) {
        return Py_NewRef(text); /* nothing was left out, so nothing is another */
    }
    return PyUnicode_FromStringAndSize(line, out - line);
}

static PyObject *
draft(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 7 || !PyType_Check(arguments[0]) || !PyType_IsSubtype((PyTypeObject *)arguments[0], &PyTuple_Type)
        || !PyTuple_Check(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "draft(kind, action, item_type, item_id, parents, payload, summary)");
        return NULL;
    }
    Text item_type, item_id, text = {"null", 4};
    char version[64];
    int is_deleted = arguments[5] == Py_None;
    PyObject *summary = line_of(arguments[6]), *payload = is_deleted ? Py_NewRef(Py_None) : canonical_of(arguments[5]);
    PyErr_Clear();
    if (summary == NULL || payload == NULL || !text_of(arguments[2], &item_type) || !text_of(arguments[3], &item_id)
        || !(is_deleted || text_of(payload, &text))
        || !put_version(version, item_type, item_id, text, is_deleted, arguments[4])) {
        Py_XDECREF(summary);
        Py_XDECREF(payload);
        Py_RETURN_NONE;
    }
    PyObject *values[D_FIELDS] = {
        Py_NewRef(arguments[1]), Py_NewRef(arguments[2]), Py_NewRef(arguments[3]), Py_NewRef(arguments[4]), payload,
        PyBool_FromLong(is_deleted), summary, PyUnicode_FromStringAndSize(version, 64), PyTuple_New(0),
        PyLong_FromLong(INLINE_MAX),
    };
    return made((PyTypeObject *)arguments[0], values, D_FIELDS);
}

/* As overlay.names_in. */
static PyObject *
names_in(PyObject *Py_UNUSED(module), PyObject *data)
{
    static const char name[] = "\"item_id\"", behind[] = ":\"";
    const size_t size = sizeof name - 1, more = sizeof behind - 1;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "names_in(data: bytes)");
        return NULL;
    }
    const char *at = PyBytes_AS_STRING(data), *stop = at + PyBytes_GET_SIZE(data);
    PyObject *names = PyList_New(0);
    if (names == NULL) {
        return NULL;
    }
    int is_plain = memmem(at, (size_t)(stop - at), "\\u", 2) == NULL;
    Py_ssize_t count = 0;
    for (const char *one = at; is_plain && (one = memmem(one, (size_t)(stop - one), name, size)) != NULL; one += size) {
        count++;
    }
    while (is_plain && (at = memmem(at, (size_t)(stop - at), name, size)) != NULL) {
        const char *text = at + size + more;
        const char *end = stop > text && memcmp(text - more, behind, more) == 0
                          ? memchr(text, '"', (size_t)(stop - text)) : NULL;
        at = end != NULL ? end + 1 : at + 1;
        PyObject *found = end != NULL ? PyBytes_FromStringAndSize(text, end - text) : NULL;
        if (end != NULL && (found == NULL || PyList_Append(names, found) < 0)) {
            Py_XDECREF(found);
            Py_DECREF(names);
            return NULL;
        }
        Py_XDECREF(found);
    }
    is_plain &= PyList_GET_SIZE(names) == count;
    if (!is_plain) {
        Py_DECREF(names);
        Py_RETURN_NONE;
    }
    return names;
}

static PyMethodDef module_methods[] = {
    {"names_in", names_in, METH_O, "names_in(data: bytes) -> list[bytes] | None: as overlay.names_in."},
    {"draft", (PyCFunction)(void (*)(void))draft, METH_FASTCALL,
     "draft(kind, action, item_type, item_id, parents, payload, summary)\n--\n\n"
     "A Draft of the class kind, of sorted parents, with payload in canonical form (None: a tombstone), summary as one line and\n"
     "the version's id; None where one of them takes the long way."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "periplus.journal._append", .m_size = -1, .m_methods = module_methods,
};

PyMODINIT_FUNC
PyInit__append(void)
{
    blocks = has_instructions() ? blocks_instructions : blocks_plain;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&AppenderType) < 0
        || PyModule_AddObjectRef(made, "Appender", (PyObject *)&AppenderType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
