/* The yardstick: split the bytes of a file at white space and number the words with a hash table.
 *
 *     cc -O2 -o split_hash split_hash.c && ./split_hash FILE ROUNDS
 *
 * Prints the number of words, of distinct words, and the seconds of the fastest round. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { uint64_t hash; uint32_t start, length, number; } Slot;

static int is_space(unsigned char c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void grow(Slot **slots, size_t *size) {
    size_t wider = *size * 2;
    Slot *fresh = calloc(wider, sizeof(Slot));
    for (size_t i = 0; i < *size; i++) {
        if (!(*slots)[i].length) continue;
        size_t at = (*slots)[i].hash & (wider - 1);
        while (fresh[at].length) at = (at + 1) & (wider - 1);
        fresh[at] = (*slots)[i];
    }
    free(*slots);
    *slots = fresh;
    *size = wider;
}

int main(int argc, char **argv) {
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) return 2;
    fseek(file, 0, SEEK_END);
    size_t bytes = ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    if (fread(text, 1, bytes, file) != bytes) return 1;
    text[bytes] = ' ';
    uint32_t *numbers = malloc((bytes / 2 + 1) * sizeof(uint32_t));
    double best = 1e9;
    size_t words = 0, distinct = 0;
    for (int round = 0; round < atoi(argv[2]); round++) {
        double start = now();
        size_t size = 1 << 12;
        Slot *slots = calloc(size, sizeof(Slot));
        words = distinct = 0;
        for (size_t i = 0; i < bytes;) {
            while (i < bytes && is_space(text[i])) i++;
            if (i == bytes) break;
            size_t first = i;
            uint64_t hash = 1469598103934665603u;
            for (; !is_space(text[i]); i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
            hash ^= hash >> 32;
            uint32_t length = i - first;
            size_t at = hash & (size - 1);
            while (slots[at].length && (slots[at].hash != hash || slots[at].length != length ||
                                        memcmp(text + slots[at].start, text + first, length)))
                at = (at + 1) & (size - 1);
            if (!slots[at].length) {
                slots[at] = (Slot){hash, first, length, distinct};
                numbers[words++] = distinct++;
                if (distinct * 2 > size) grow(&slots, &size);
            } else {
                numbers[words++] = slots[at].number;
            }
        }
        free(slots);
        if (now() - start < best) best = now() - start;
    }
    printf("%zu %zu %.6f\n", words, distinct, best);
    return 0;
}
