/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the test programs share: devices, ends of connections, completions.
 * Nothing here returns an error: what does not work ends the program.
 */
#ifndef TESTS_COMMON_H
#define TESTS_COMMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu
#define QKEY 0x11111111u
#define GRH_BYTES 40u
#define ALL_ACCESS                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Says what is wrong and ends the program with status 1. */
_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Ends the program unless `condition` holds. */
#define check(condition, ...)                                                 \
	do {                                                                  \
		if (!(condition))                                             \
			fail(__VA_ARGS__);                                    \
	} while (0)

/* Pseudo-random numbers that depend on nothing but the seed (xorshift64*). */
struct rng {
	uint64_t state;
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* A number from 0 to `bound` - 1. */
uint32_t rng_below(struct rng *rng, uint32_t bound);
/* True once in `odds` times. */
bool rng_once_in(struct rng *rng, uint32_t odds);

/* Nanoseconds, and milliseconds, of a clock that never goes back. */
uint64_t now_ns(void);
uint64_t now_ms(void);

/* A port of an HCA, opened, with a protection domain. */
struct device {
	const char *name;
	uint8_t port;
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	uint8_t gid_index;
	union ibv_gid gid;
	struct ibv_pd *pd;
};

/* Opens "NAME" or "NAME:PORT" and waits until the port is active. */
void device_open(struct device *device, const char *name);
void device_close(struct device *device);
/* What a counter of the port says; the kernel asks the driver every 10 ms at most. */
uint64_t hw_counter(const struct device *device, const char *name);

/* What an end is made with. */
struct end_options {
	enum ibv_qp_type type;
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t sges;
	uint32_t inline_bytes;
	bool signal_all;
	bool with_srq;
	bool with_channel;
	bool one_cq;
	/* What the ibv_wr_* calls are to offer (IBV_QP_EX_WITH_*); 0: none. */
	uint64_t send_ops;
};

/* A queue pair with what it needs. */
struct end {
	struct device *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	enum ibv_qp_type type;
	uint32_t psn;
	uint32_t inline_bytes;
};

/* How two ends are connected. */
struct path_options {
	enum ibv_mtu mtu;
	uint8_t timeout;
	uint8_t retries;
	uint8_t rnr_retries;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	bool grh;
	unsigned int access;
};

extern const struct path_options default_path;

void end_create(struct end *end, struct device *device,
		const struct end_options *options);
void end_destroy(struct end *end);
/* Brings both ends from RESET to RTS, each with the other as its peer. */
void end_connect(struct end *a, struct end *b,
		 const struct path_options *path);
void end_to_init(struct end *end, const struct path_options *path);
/* The same, with an entry of the port's table of P_Keys. */
void end_to_init_in(struct end *end, const struct path_options *path,
		    uint16_t pkey_index);
void end_to_rtr(struct end *end, const struct end *peer,
		const struct path_options *path);
void end_to_rts(struct end *end, const struct path_options *path);
/* One step to a state that needs no attribute (RESET, ERR). */
void end_to(struct end *end, enum ibv_qp_state state);
/* The same steps, which may fail: 0 or an errno. */
int end_try_init(struct end *end, const struct path_options *path);
int end_try_rtr(struct end *end, const struct end *peer,
		const struct path_options *path);
int end_try_rts(struct end *end, const struct path_options *path);
int end_try(struct end *end, enum ibv_qp_state state);
enum ibv_qp_state end_state(struct end *end);

/* Address vector of what `device` calls `peer`. */
struct ibv_ah_attr path_to(const struct device *device,
			   const struct device *peer, bool grh);

void post_send(struct end *end, struct ibv_send_wr *wr);
void post_recv(struct end *end, struct ibv_recv_wr *wr);

/* Takes one completion; false if there is none for `ms`. */
bool await(struct ibv_cq *cq, struct ibv_wc *wc, int ms);

#endif
