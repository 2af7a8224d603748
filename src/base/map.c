/* map.c: string -> pointer by open addressing; items stay in order of insertion. */
#include "base/base.h"

#include <string.h>

Map map_make(Arena *a) { return (Map){.arena = a}; }

static uint64_t hash_text(const char *s) { /* FNV-1a */
  uint64_t h = 1469598103934665603u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
  return h ^ h >> 32;
}

static uint32_t *find_slot(const Map *m, const char *key) {
  size_t i = hash_text(key) & (m->nslots - 1);
  while (m->slots[i] && strcmp(m->items[m->slots[i] - 1].key, key)) i = (i + 1) & (m->nslots - 1);
  return &m->slots[i];
}

static void grow(Map *m) {
  m->nslots = m->nslots ? m->nslots * 2 : 16;
  m->slots = NEW_ARRAY(m->arena, uint32_t, m->nslots);
  for (size_t k = 0; k < m->count; k++) *find_slot(m, m->items[k].key) = (uint32_t)k + 1;
}

void *map_get(const Map *m, const char *key) {
  if (!m->nslots) return NULL;
  uint32_t k = *find_slot(m, key);
  return k ? m->items[k - 1].value : NULL;
}

void map_set(Map *m, const char *key, void *value) {
  if (2 * (m->count + 1) > m->nslots) grow(m);
  uint32_t *slot = find_slot(m, key);
  if (*slot) {
    m->items[*slot - 1].value = value;
    return;
  }
  MapItem item = {arena_text(m->arena, key, strlen(key)), value};
  PUSH(m->arena, m->items, m->count, m->cap, item);
  *slot = (uint32_t)m->count;
}
