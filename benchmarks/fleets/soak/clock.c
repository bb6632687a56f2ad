/* A wall clock that can be set: what LD_PRELOAD puts before the C library in every process of a soak.

   SOAK_CLOCK names a file whose first eight bytes say by how many nanoseconds the wall clock is ahead of the machine's.
   The file is mapped, so that a jump is seen at once. Monotonic clocks stay as they are. A deadline that a caller has
   worked out on this clock is put back before it reaches the kernel, whose clock did not jump.
*/

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL
#define WALL_SECONDS 1000000000LL /* a deadline beyond is of a wall clock; a machine is not up for 30 years */

static const long long nothing = 0;
static const volatile long long *ahead = &nothing;

static long (*real_syscall)(long, ...);
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_cond)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cond_clock)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static int (*real_sem)(sem_t *, const struct timespec *);
static int (*real_sem_clock)(sem_t *, clockid_t, const struct timespec *);

static void *found(const char *name)
{
    void *place = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"); /* there are two of some, and the older comes first */
    return place ? place : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            ahead = mapped;
        close(file);
    }
}

static struct timespec moved(struct timespec at, long long by)
{
    long long all = at.tv_sec * BILLION + at.tv_nsec + by;
    struct timespec to = {.tv_sec = all / BILLION, .tv_nsec = all % BILLION};
    return to;
}

static int is_wall(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (!real_gettime)
        real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real_gettime(clock, at);
    if (code == 0 && is_wall(clock))
        *at = moved(*at, *ahead);
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}

static const struct timespec *kernels(const struct timespec *until, struct timespec *room)
{
    if (!until || until->tv_sec < WALL_SECONDS)
        return until;
    *room = moved(*until, -*ahead);
    return room;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec room;
    if (!real_cond)
        real_cond = found("pthread_cond_timedwait");
    return real_cond(cond, mutex, kernels(until, &room));
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    struct timespec room;
    if (!real_cond_clock)
        real_cond_clock = found("pthread_cond_clockwait");
    return real_cond_clock(cond, mutex, clock, is_wall(clock) ? kernels(until, &room) : until);
}

int sem_timedwait(sem_t *sem, const struct timespec *until)
{
    struct timespec room;
    if (!real_sem)
        real_sem = found("sem_timedwait");
    return real_sem(sem, kernels(until, &room));
}

int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    struct timespec room;
    if (!real_sem_clock)
        real_sem_clock = found("sem_clockwait");
    return real_sem_clock(sem, clock, is_wall(clock) ? kernels(until, &room) : until);
}

long syscall(long number, ...)
{
    long words[6];
    struct timespec room;
    va_list given;
    va_start(given, number);
    for (int n = 0; n < 6; n++)
        words[n] = va_arg(given, long);
    va_end(given);
    if (!real_syscall)
        real_syscall = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME))
        words[3] = (long)kernels((const struct timespec *)words[3], &room);
    long code = real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_clock_gettime && code == 0 && is_wall((clockid_t)words[0]))
        *(struct timespec *)words[1] = moved(*(struct timespec *)words[1], *ahead);
    return code;
}
