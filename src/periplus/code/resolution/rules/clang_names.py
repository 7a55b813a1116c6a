"""Names that C and C++ bring with them: headers, functions of the C library and of POSIX, members of their types.

Source: ISO C (N3220, clause 7), POSIX.1-2024, and the index of https://en.cppreference.com.
"""

from __future__ import annotations

__all__ = ["LIBRARY_NAMES", "MEMBER_NAMES", "STANDARD_HEADERS"]

from typing import Final

STANDARD_HEADERS: Final = frozenset(
    f"{name}.h"
    for name in (
        "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbit stdbool "
        "stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype aio cpio dirent dlfcn endian fcntl "
        "fmtmsg fnmatch ftw getopt glob grp iconv langinfo libgen malloc monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched "
        "search semaphore spawn strings stropts sysexits syslog tar termios ucontext ulimit unistd utime utmpx wordexp windows winsock2 "
        "intrin alloca byteswap execinfo err ifaddrs sys/cdefs sys/epoll sys/eventfd sys/file sys/inotify sys/ioctl sys/ipc sys/mman "
        "sys/msg sys/param sys/prctl sys/resource sys/select sys/sem sys/sendfile sys/shm sys/signalfd sys/socket sys/stat sys/statvfs "
        "sys/syscall sys/sysctl sys/sysinfo sys/time sys/timerfd sys/times sys/types sys/uio sys/un sys/utsname sys/wait net/if "
        "netinet/in netinet/tcp netinet/ip arpa/inet linux/types"
    ).split()
) | frozenset(
    (
        "algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath "
        "codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime "
        "cuchar cwchar cwctype deque exception execution expected filesystem flat_map flat_set format forward_list fstream functional "
        "future generator initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map mdspan memory "
        "memory_resource mutex new numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator semaphore set "
        "shared_mutex source_location span spanstream sstream stack stacktrace stdexcept stdfloat stop_token streambuf string string_view "
        "strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant "
        "vector version"
    ).split()
)
LIBRARY_NAMES: Final = frozenset(
    "abort abs accept access acos alarm asctime asin assert atan atan2 atexit atof atoi atol atoll bind bsearch calloc ceil chdir chmod "
    "chown clearerr clock clock_gettime close closedir connect cos cosh creat ctime difftime div dup dup2 errno execl execlp execv execve "
    "execvp exit exp fabs fclose fcntl fdopen feof ferror fflush fgetc fgetpos fgets fileno floor fmod fopen fork fprintf fputc fputs fread "
    "free freopen frexp fscanf fseek fsetpos fstat fsync ftell ftruncate fwrite getaddrinfo getc getchar getcwd getenv getgid gethostname "
    "getopt getpid getppid getpwnam getpwuid gets getsockname getsockopt gettimeofday getuid gmtime gmtime_r htonl htons ioctl isalnum "
    "isalpha isatty iscntrl isdigit isgraph isinf islower isnan isprint ispunct isspace isupper isxdigit kill labs ldexp ldiv link listen "
    "localtime localtime_r log log10 log2 longjmp lseek lstat malloc memchr memcmp memcpy memmove memset mkdir mkstemp mktime mmap modf "
    "munmap nanosleep ntohl ntohs offsetof open opendir pause perror pipe poll pow printf pthread_cond_init pthread_cond_signal "
    "pthread_cond_wait pthread_create pthread_join pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock "
    "pthread_mutex_t pthread_t putc putchar putenv puts qsort raise rand random read readdir readlink realloc recv recvfrom remove rename "
    "rewind rmdir scanf select send sendto setbuf setenv setjmp setlocale setsockopt setvbuf shutdown sigaction signal sin sinh sleep "
    "snprintf socket sprintf sqrt srand srandom sscanf stat strcasecmp strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime "
    "strlen strncasecmp strncat strncmp strncpy strndup strpbrk strrchr strsep strspn strstr strtod strtof strtok strtok_r strtol strtold "
    "strtoll strtoul strtoull strxfrm symlink sysconf system tan tanh time tmpfile tolower toupper truncate umask uname ungetc unlink "
    "unsetenv usleep utime va_arg va_copy va_end va_list va_start vfprintf vprintf vsnprintf vsprintf wait waitpid write "
    "FILE DIR EOF size_t ssize_t ptrdiff_t intptr_t uintptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t off_t pid_t "
    "uid_t gid_t mode_t time_t socklen_t wchar_t max_align_t stdin stdout stderr timeval timespec sockaddr tm EINTR EAGAIN EINVAL ENOMEM "
    "ENOENT EEXIST EXIT_SUCCESS EXIT_FAILURE SEEK_SET SEEK_CUR SEEK_END INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN SIZE_MAX CHAR_BIT "
    "PATH_MAX SIGINT SIGTERM".split()
)
MEMBER_NAMES: Final = frozenset(
    "append assign at back begin bucket_count c_str capacity cbegin cend clear compare contains copy count crbegin crend data emplace "
    "emplace_back emplace_front empty end equal_range erase extract find find_first_of find_if find_last_of first flush front get "
    "get_deleter good fail eof bad insert insert_or_assign is_open join joinable detach length lock unlock try_lock lower_bound max_size "
    "merge notify_all notify_one open close peek pop pop_back pop_front push push_back push_front put rbegin read rdbuf release remove "
    "rend replace reserve reset resize rfind second seekg seekp shrink_to_fit size sort splice starts_with ends_with store load exchange "
    "fetch_add fetch_sub str substr swap tellg tellp top try_emplace unique upper_bound use_count value value_or has_value wait wait_for "
    "wait_until what write next prev key name type id flags len buf ptr d_name st_mode st_size st_mtime tv_sec tv_usec tv_nsec sin_port "
    "sin_addr sin_family sa_family sa_handler sa_mask sa_flags tm_hour tm_isdst tm_mday tm_min tm_mon tm_sec tm_wday tm_yday tm_year fd "
    "events revents quot rem pw_name pw_dir main".split()
)
