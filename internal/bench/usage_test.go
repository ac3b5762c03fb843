package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUsage checks that only the measured time counts: the last seconds before the client's
// first byte.
func TestUsage(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	u := &cpuUsage{ended: at(40)}
	for _, m := range []struct{ at, cpu int }{{0, 0}, {10, 900}, {20, 910}, {30, 920}, {40, 930}, {50, 5000}} {
		u.samples = append(u.samples, cpuSample{at(m.at), time.Duration(m.cpu) * time.Millisecond})
	}
	for _, tt := range []struct{ seconds, cpu float64 }{
		{0.03, 0.030}, {0.025, 0.025}, {0.02, 0.020}, {0.035, 0.480}, {0.04, 0.930}, {1, 0.930}, {0, 0},
	} {
		assert.InDelta(t, tt.cpu, u.measuredSeconds(tt.seconds), 1e-9, tt.seconds)
	}
	assert.Zero(t, new(cpuUsage).measuredSeconds(1))
}

// TestUsageUntil checks that the first byte ends the measured time, not the last one.
func TestUsageUntil(t *testing.T) {
	var out bytes.Buffer
	var u cpuUsage
	used := time.Duration(0)
	to := u.endAtFirstByte(&out)
	stop := u.startSampling(func() time.Duration { used += time.Second; return used })
	_, err := to.Write([]byte("a"))
	require.NoError(t, err)
	stop()
	n := len(u.samples)
	u.sample()
	_, err = to.Write([]byte("b"))
	require.NoError(t, err)
	assert.Len(t, u.samples, n+1, "the end is read once")
	assert.Equal(t, "ab", out.String())
	assert.Less(t, u.cpuAt(u.ended), u.samples[n].cpu)
	assert.Equal(t, (u.cpuAt(u.ended) - time.Second).Seconds(), u.measuredSeconds(time.Hour.Seconds()))
}

// TestClientCPU checks that a server's CPU time before and after a client's
// measured time does not count, and that all in between does.
func TestClientCPU(t *testing.T) {
	s := &server{cmd: exec.Command("sh", "-c", "while :; do :; done")}
	require.NoError(t, s.cmd.Start())
	defer func() {
		require.NoError(t, s.cmd.Process.Kill())
		_ = s.cmd.Wait()
	}()
	r, err := runClient(t.Context(), s, anyCPU, "sh", "-c", `sleep 0.3; printf '\n'; sleep 0.3; echo '{"seconds": 0.1}'`)
	require.NoError(t, err)
	assert.Greater(t, r.Server, 0.0)
	assert.Less(t, r.Server, 0.2, "of a busy loop for 0.6 s")
}

// TestCPUOf checks that a process's CPU time is the one that it reports itself.
func TestCPUOf(t *testing.T) {
	before, seen := cpuTime(), cpuOf(os.Getpid())
	for cpuTime() < before+50*time.Millisecond {
	}
	after, then := cpuTime(), cpuOf(os.Getpid())
	assert.InDelta(t, after-before, then-seen, float64(20*time.Millisecond))
	assert.Zero(t, cpuOf(1<<24), "more than Linux's greatest number of a process")
}
