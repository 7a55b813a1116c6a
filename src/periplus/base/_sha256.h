/* SHA-256 (FIPS 180-4) of short byte strings, without a hash object for each. Uses the SHA instructions of x86 processors
 * that have them, elsewhere plain C; tests compare both with hashlib.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 64

static const uint32_t K[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t INITIAL[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

typedef void (*blocks_function)(uint32_t state[8], const uint8_t *data, size_t count);

static inline uint32_t
turned(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

static void
blocks_plain(uint32_t state[8], const uint8_t *data, size_t count)
{
    uint32_t w[64];
    for (; count; count--, data += BLOCK) {
        for (int i = 0; i < 16; i++) {
            w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 | (uint32_t)data[4 * i + 2] << 8
                   | data[4 * i + 3];
        }
        for (int i = 16; i < 64; i++) {
            uint32_t s0 = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t s1 = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
            uint32_t t2 = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* The instructions keep the state as ABEF and CDGH and do two rounds each; the message words rotate through four registers. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
blocks_instructions(uint32_t state[8], const uint8_t *data, size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
    for (; count; count--, data += BLOCK) {
        __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i m[4];
        for (int i = 0; i < 4; i++) {
            m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), big_endian);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i words = _mm_add_epi32(m[i & 3], _mm_load_si128((const __m128i *)(K + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0E));
            if (i < 12) {
                __m128i seventh = _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4);
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]), seventh);
                m[i & 3] = _mm_sha256msg2_epu32(sum, m[(i + 3) & 3]);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static int
has_instructions(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) {
        return 0;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
#else
#define blocks_instructions blocks_plain
static int
has_instructions(void)
{
    return 0;
}
#endif

static blocks_function blocks = blocks_plain;

typedef struct {
    uint32_t state[8];
    uint64_t length;
    uint8_t rest[BLOCK];
} Hash;

static void
begin(Hash *hash)
{
    memcpy(hash->state, INITIAL, sizeof INITIAL);
    hash->length = 0;
}

static void
feed(Hash *hash, const uint8_t *data, size_t size)
{
    size_t held = hash->length % BLOCK;
    hash->length += size;
    if (held) {
        size_t more = BLOCK - held < size ? BLOCK - held : size;
        memcpy(hash->rest + held, data, more);
        data += more, size -= more;
        if (held + more < BLOCK) {
            return;
        }
        blocks(hash->state, hash->rest, 1);
    }
    blocks(hash->state, data, size / BLOCK);
    memcpy(hash->rest, data + size / BLOCK * BLOCK, size % BLOCK);
}

static void
finish(Hash *hash, uint8_t out[32])
{
    size_t held = hash->length % BLOCK;
    size_t size = held < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint8_t tail[2 * BLOCK];
    memcpy(tail, hash->rest, held);
    memset(tail + held, 0, size - held);
    tail[held] = 0x80;
    for (int i = 0; i < 8; i++) {
        tail[size - 1 - i] = (uint8_t)(hash->length * 8 >> 8 * i);
    }
    blocks(hash->state, tail, size / BLOCK);
    for (int i = 0; i < 32; i++) {
        out[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}
