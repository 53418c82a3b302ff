// SPDX-License-Identifier: GPL-2.0
/*
 * The view of a host's connections. What they are is said by the module, the states of
 * their queue pairs by the kernel (rdma), and what has come through by their processes.
 */

#include "sibcm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A queue pair, as rdma has it. */
struct qp {
	char device[32];
	uint32_t qpn;
	char state[16];
};

/* A connection, and what is known of its messages. */
struct sample {
	struct row row;
	bool has_page;
	struct page page;
};

struct samples {
	struct sample *all;
	size_t count;
	uint64_t at;
};

static struct samples take_samples(void)
{
	struct samples samples = { .at = now_us() };
	struct row *rows = read_rows(&samples.count);

	samples.all = calloc(samples.count + 1, sizeof(*samples.all));
	if (!samples.all)
		die("no memory for %zu connections", samples.count);
	for (size_t i = 0; i < samples.count; i++) {
		struct sample *sample = &samples.all[i];

		sample->row = rows[i];
		sample->has_page = find_page(rows[i].guid, rows[i].comm_id,
					     &sample->page);
	}
	free(rows);
	return samples;
}

/* The same connection in an earlier sample. */
static const struct sample *find(const struct samples *samples,
				 const struct sample *sample)
{
	for (size_t i = 0; i < samples->count; i++) {
		const struct sample *it = &samples->all[i];

		if (it->has_page && it->row.guid == sample->row.guid &&
		    it->row.comm_id == sample->row.comm_id)
			return it;
	}
	return NULL;
}

static struct qp *read_qps(size_t *count)
{
	FILE *file = popen("rdma resource show qp 2>/dev/null", "r");
	struct qp *qps = NULL;
	char line[512];

	*count = 0;
	while (file && fgets(line, sizeof(line), file)) {
		const char *state = strstr(line, "path-mig-state ");
		struct qp qp;

		if (sscanf(line, " link %31[^/]/%*s lqpn %u", qp.device,
			   &qp.qpn) != 2 ||
		    !state ||
		    sscanf(state, "path-mig-state %15s", qp.state) != 1)
			continue;
		qps = realloc(qps, (*count + 1) * sizeof(qp));
		if (!qps)
			die("no memory for %zu queue pairs", *count + 1);
		qps[(*count)++] = qp;
	}
	if (file)
		pclose(file);
	return qps;
}

static const char *state_of(const struct row *row, const struct qp *qps,
			    size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (qps[i].qpn == row->qpn &&
		    !strcmp(qps[i].device, row->device))
			return qps[i].state;
	return "-";
}

/* The port of a device that has this LID, or 0. */
static int port_with(const char *device, unsigned int lid)
{
	for (int port = 1;; port++) {
		unsigned int found = 0;
		char path[96];
		FILE *file;

		snprintf(path, sizeof(path),
			 "/sys/class/infiniband/%s/ports/%d/lid", device, port);
		file = fopen(path, "r");
		if (!file)
			return 0;
		if (fscanf(file, "%x", &found) != 1)
			found = 0;
		fclose(file);
		if (found == lid)
			return port;
	}
}

/* A path is a port, and the LIDs of both ends. */
static void print_path(const char *device, const unsigned int *lids)
{
	char path[64];

	if (!lids[0])
		snprintf(path, sizeof(path), "none");
	else
		snprintf(path, sizeof(path), "%s/%d %u > %u", device,
			 port_with(device, lids[0]), lids[0], lids[1]);
	printf(" %-18s", path);
}

static void print_line(const struct sample *sample,
		       const struct samples *earlier, double us,
		       const struct qp *qps, size_t count)
{
	const struct sample *then = find(earlier, sample);
	const struct row *row = &sample->row;
	char service[24] = "-";

	if (row->is_watched)
		snprintf(service, sizeof(service), "ib_cm");
	else if (sample->has_page)
		snprintf(service, sizeof(service), "%#llx",
			 (unsigned long long)sample->page.service);
	printf("%#010x %-19s", row->comm_id, service);
	print_path(row->device, row->path);
	print_path(row->device, row->alternate);
	printf(" %-8s", state_of(row, qps, count));
	if (sample->has_page && then)
		printf(" %8.1f %10.0f",
		       (sample->page.bytes - then->page.bytes) / us,
		       (sample->page.messages - then->page.messages) * 1e6 / us);
	else
		printf(" %8s %10s", "-", "-");
}

static void print_view(const struct samples *samples,
		       const struct samples *earlier)
{
	/* A terminal is drawn over, line by line, so that nothing flickers. */
	bool is_terminal = isatty(STDOUT_FILENO);
	const char *end = is_terminal ? "\033[K\n" : "\n";
	double us = samples->at - earlier->at;
	char clock[16];
	time_t now = time(NULL);
	size_t count;
	struct qp *qps = read_qps(&count);

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime(&now));
	printf("%ssibcm at %s: %zu connections%s",
	       is_terminal ? "\033[H" : "", clock, samples->count, end);
	printf("%-10s %-19s %-18s %-18s %-8s %8s %10s%s", "ID", "SERVICE",
	       "PATH", "ALTERNATE", "STATE", "MB/s", "MESSAGES/s", end);
	for (size_t i = 0; i < samples->count; i++) {
		print_line(&samples->all[i], earlier, us, qps, count);
		fputs(end, stdout);
	}
	fputs(is_terminal ? "\033[J" : "\n", stdout);
	fflush(stdout);
	free(qps);
}

void top(uint64_t count, double interval)
{
	struct timespec pause = { .tv_sec = interval };
	struct samples earlier = take_samples();
	static char output[1 << 16];

	pause.tv_nsec = (interval - pause.tv_sec) * 1e9;
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	if (isatty(STDOUT_FILENO))
		fputs("\033[2J", stdout);
	for (; count && !interrupted; count--) {
		struct samples samples;

		if (nanosleep(&pause, NULL))
			break;
		samples = take_samples();
		print_view(&samples, &earlier);
		free(earlier.all);
		earlier = samples;
	}
	free(earlier.all);
}
