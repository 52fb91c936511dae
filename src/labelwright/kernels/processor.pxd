cdef extern from *:
    """
    #if defined(LABELWRIGHT_CHECKED)
    #define LABELWRIGHT_IS_CHECKED 1
    #else
    #define LABELWRIGHT_IS_CHECKED 0
    #endif

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <cpuid.h>
    static int labelwright_has_avx2(void) {
        unsigned a, b, c, d, low, high;
        if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
        if (!(c & (1u << 12)) || !(c & (1u << 27))) return 0;  /* FMA, OSXSAVE */
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & 6) != 6) return 0;  /* the system keeps the wide registers */
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
        return (b & (1u << 5)) && (b & (1u << 8));  /* AVX2, BMI2 */
    }
    #elif defined(_M_X64)
    #include <intrin.h>
    #include <immintrin.h>
    static int labelwright_has_avx2(void) {
        int words[4];
        __cpuid(words, 1);
        if (!(words[2] & (1 << 12)) || !(words[2] & (1 << 27))) return 0;
        if ((_xgetbv(0) & 6) != 6) return 0;
        __cpuidex(words, 7, 0);
        return (words[1] & (1 << 5)) && (words[1] & (1 << 8));
    }
    #else
    static int labelwright_has_avx2(void) { return 0; }
    #endif
    """
    bint IS_CHECKED "LABELWRIGHT_IS_CHECKED"
    bint HAS_AVX2 "labelwright_has_avx2()"

cpdef bint has_avx2()
cpdef bint is_checked()
