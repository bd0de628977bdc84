/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan.h"

#include <string.h>

uint64_t plan_mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return value ^ (value >> 31);
}

uint64_t plan_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15;
	return plan_mix(*state);
}

/* Most are small; sizes around powers of two find most mistakes. */
static uint32_t random_size(uint64_t *state, bool one_sided)
{
	uint64_t dice = plan_random(state) % 100, more = plan_random(state);

	if (dice < 5)
		return 0;
	if (dice < 45)
		return (uint32_t)(more % 256);
	if (dice < 60)
		return (uint32_t)((UINT64_C(64) << more % 7) - 2 + (more >> 8) % 5);
	if (dice < 85)
		return (uint32_t)(more % 8192);
	if (dice < 95)
		return (uint32_t)(more % 65536);
	if (dice < 99 || !one_sided)
		return (uint32_t)(more % SEND_BYTES_MAX);
	return (uint32_t)(more % (WRITE_BYTES_MAX - 2 * WRITE_GUARD));
}

static enum kind random_kind(uint64_t *state)
{
	static const uint8_t weights[STEP_KINDS] = { 22, 10, 20, 10, 18, 5, 5, 5, 5 };
	uint64_t dice = plan_random(state) % 100;
	unsigned int kind = 0;

	while (dice >= weights[kind]) {
		dice -= weights[kind];
		kind++;
	}
	return (enum kind)kind;
}

struct step plan_step(uint64_t seed, unsigned int from, unsigned int to, uint32_t number)
{
	uint64_t state =
		plan_mix(seed ^ plan_mix((uint64_t)from << 48 | (uint64_t)to << 32 | number));
	struct step step = { .kind = random_kind(&state) };
	bool atomic = step.kind >= STEP_ADD_OWN;
	bool one_sided = step.kind == STEP_READ || step.kind == STEP_WRITE;
	uint64_t bits = plan_random(&state);

	step.size = atomic ? 8 : random_size(&state, one_sided);
	step.key = plan_random(&state);
	step.imm = (uint32_t)plan_random(&state);
	step.value = plan_random(&state) % 1000 + 1;
	step.offset = (uint32_t)(plan_random(&state) % (SOURCE_BYTES - step.size));
	step.sges = atomic || step.size == 0 ? 1 : 1 + bits % STEP_SGES_MAX;
	if (step.sges > step.size)
		step.sges = 1;
	step.signalled = (bits >> 8) % 3 == 0;
	step.inlined = (bits >> 16) % 2 == 0;
	step.fenced = (bits >> 24) % 8 == 0;
	step.solicited = (bits >> 32) % 4 == 0;
	step.mismatch = (bits >> 40) % 3 == 0;
	return step;
}

static uint32_t slot_bytes(uint32_t slot)
{
	return slot == WRITE_SLOTS - 1 ? WRITE_BYTES_MAX : SEND_BYTES_MAX + 2 * WRITE_GUARD;
}

uint32_t plan_slot_start(uint32_t write)
{
	return write % WRITE_SLOTS * (SEND_BYTES_MAX + 2 * WRITE_GUARD);
}

uint32_t plan_slot_fit(uint32_t write, uint32_t size)
{
	uint32_t room = slot_bytes(write % WRITE_SLOTS) - 2 * WRITE_GUARD;

	return size < room ? size : room;
}

uint32_t plan_slots_bytes(void)
{
	return plan_slot_start(WRITE_SLOTS - 1) + slot_bytes(WRITE_SLOTS - 1);
}

static uint64_t pattern_word(uint64_t key, uint64_t index)
{
	uint64_t word = (key + index) * 0x9e3779b97f4a7c15;

	return word ^ (word >> 29);
}

static uint8_t pattern_byte(uint64_t key, uint64_t index)
{
	return (uint8_t)(pattern_word(key, index / 8) >> index % 8 * 8);
}

void pattern_fill(void *to, size_t length, uint64_t key, uint64_t start)
{
	uint8_t *bytes = to;
	size_t i = 0;

	for (; i < length && (start + i) % 8; i++)
		bytes[i] = pattern_byte(key, start + i);
	for (; i + 8 <= length; i += 8) {
		uint64_t word = pattern_word(key, (start + i) / 8);

		memcpy(bytes + i, &word, 8);
	}
	for (; i < length; i++)
		bytes[i] = pattern_byte(key, start + i);
}

int64_t pattern_check(const void *from, size_t length, uint64_t key, uint64_t start)
{
	const uint8_t *bytes = from;
	size_t i = 0;

	for (; i < length && (start + i) % 8; i++)
		if (bytes[i] != pattern_byte(key, start + i))
			return (int64_t)i;
	for (; i + 8 <= length; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		if (word != pattern_word(key, (start + i) / 8))
			break; /* the bytes below tell which */
	}
	for (; i < length; i++)
		if (bytes[i] != pattern_byte(key, start + i))
			return (int64_t)i;
	return -1;
}
