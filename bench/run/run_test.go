package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestTheKernelTellsWhatAProcessCosts(t *testing.T) {
	before, err := cpu(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for began := time.Now(); after == before; { // the kernel counts work in hundredths of a second
		if after, err = cpu(os.Getpid()); err != nil || after < before || time.Since(began) > 20*time.Second {
			t.Fatalf("CPU time %v, then %v, %v", before, after, err)
		}
	}
	if memory, err := rss(os.Getpid()); err != nil || memory < 1<<20 {
		t.Errorf("memory = %d, %v", memory, err)
	}
	if _, err := cpu(1 << 30); err == nil {
		t.Error("a process that is not there has CPU time")
	}
}

func TestChildrenCount(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(tree(os.Getpid()), cmd.Process.Pid) {
		t.Errorf("%d is not among %v", cmd.Process.Pid, tree(os.Getpid()))
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestTheMedianIsTheMiddleOne(t *testing.T) {
	of := func(f figures) float64 { return f.P50 }
	for _, s := range []struct {
		values []float64
		want   float64
	}{{[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 3}, 2}} {
		var all []figures
		for _, v := range s.values {
			all = append(all, figures{P50: v})
		}
		if got := median(all, of); got != s.want {
			t.Errorf("median of %v = %v, want %v", s.values, got, s.want)
		}
	}
}

func TestTimesAreReadable(t *testing.T) {
	for _, s := range []struct {
		us   float64
		want string
	}{{0, "0 µs"}, {28.4, "28 µs"}, {9999, "9999 µs"}, {10_500, "10.5 ms"}, {-20_000, "-20.0 ms"}} {
		if got := micros(s.us); got != s.want {
			t.Errorf("%v = %q, want %q", s.us, got, s.want)
		}
	}
}
