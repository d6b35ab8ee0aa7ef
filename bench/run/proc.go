package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU time in /proc: Linux tells hundredths of a second to
// user space whatever its own clock.
const tick = 10 * time.Millisecond

// tree is pid and its children, and theirs. The kernel lists children by the
// thread that started them.
func tree(pid int) []int {
	all := []int{pid}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil { // the pattern is right
		panic(err)
	}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, tree(n)...)
			}
		}
	}
	return all
}

// cpu is the CPU time that pid and its children have used.
func cpu(pid int) (time.Duration, error) {
	var sum time.Duration
	for _, p := range tree(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if err != nil {
			return 0, err
		}
		// The name in brackets may hold anything; the numbers follow it.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// rss is the memory that pid and its children hold, in bytes.
func rss(pid int) (int64, error) {
	var sum int64
	for _, p := range tree(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p))
		if err != nil {
			return 0, err
		}
		pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += pages * int64(os.Getpagesize())
	}
	return sum, nil
}

// files raises the limit of open files, for this process and those it starts,
// and returns it. A proxy needs two for each stream.
func files() (uint64, error) {
	const want = 65_536
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Max < want {
		raised := syscall.Rlimit{Cur: want, Max: want}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil { // root may
			return want, nil
		}
	}
	limit.Cur = limit.Max
	return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// processor is the machine's, as /proc names it.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// kernel is its version.
func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
