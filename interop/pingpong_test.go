//go:build interop

package interop

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pingpongLimit = 2 * time.Minute // for a run, on a busy machine

// TestPingpong checks mountrdma against rdma-core's ibv_uc_pingpong and
// ibv_ud_pingpong on rxe, the kernel's software RoCE, in place of their server
// and of their client. The path MTU is 1024 on an Ethernet of 1500. Most games are
// short; for the shortest and the longest message of one packet they exceed the 500
// receives that rdma-core's programs post at the start.
func TestPingpong(t *testing.T) {
	sharedGuest(t)
	port := 18515
	for _, tt := range []struct {
		service     string
		size, iters int
	}{
		{"uc", 1, 1000},
		{"uc", 1000, 100},
		{"uc", 1024, 1000},
		{"uc", 1025, 100},
		{"uc", 4096, 100},
		{"uc", 65536, 100},
		{"ud", 1, 1000},
		{"ud", 1023, 100},
		{"ud", 1024, 1000},
	} {
		for _, role := range []string{"client", "server"} {
			port++
			t.Run(fmt.Sprintf("%s/%d/%s", tt.service, tt.size, role), func(t *testing.T) {
				runPingPong(t, tt.service, tt.size, tt.iters, port, role == "client")
			})
		}
	}
}

// runPingPong plays once. A lost packet would end the game because nothing is sent
// again, but no hop has less room than one message needs.
func runPingPong(t *testing.T, service string, size, iters, port int, client bool) {
	linux := fmt.Sprintf("exec ibv_%s_pingpong -d rxe2 -g 1 -c -p %d -s %d -n %d", service, port, size, iters)
	args := []string{
		"pingpong", "--service", service, "-c", "-p", strconv.Itoa(port), "-s", strconv.Itoa(size), "-n", strconv.Itoa(iters),
		"--timeout", "20s",
	}
	ours := exec.Command(shared.ethernet.inNamespace(t, programPath("mountrdma")))
	var said sharedBuffer
	ours.Stdout, ours.Stderr = &said, &said
	if client {
		ours.Args = append(append(ours.Args, args...), guestEthernet)
	} else {
		ours.Args = append(ours.Args, args...)
		linux += " " + hostEthernet
	}
	start := func() *Process {
		p, err := StartProcess(ours)
		require.NoError(t, err)
		t.Cleanup(p.Kill)
		return p
	}
	var p *Process
	if !client {
		p = start()
		require.Eventually(t, func() bool { return len(said.String()) > 0 }, pingpongLimit, 10*time.Millisecond)
	}
	s, err := sharedGuest(t).Open(t.Context(), linux+" 2>&1")
	require.NoError(t, err)
	t.Cleanup(func() {
		tryInGuest(t, fmt.Sprintf("killall ibv_%s_pingpong 2>/dev/null; :", service))
		s.Close()
	})
	if client {
		mustInGuest(t, fmt.Sprintf("for i in $(seq 200); do ss -ltn | grep -q ':%d ' && exit; usleep 50000; done; exit 1", port))
		p = start()
	}
	select {
	case <-p.Done():
	case <-time.After(pingpongLimit):
		p.Kill()
	}
	if !assert.Zero(t, p.ExitCode(), "mountrdma says: %s", &said) {
		tryInGuest(t, fmt.Sprintf("killall ibv_%s_pingpong 2>/dev/null; :", service))
	}
	out, err := io.ReadAll(s)
	require.NoError(t, err)
	assert.Contains(t, string(out), fmt.Sprintf("%d iters", iters))
	assert.NotContains(t, string(out), "invalid data")
	t.Logf("%s", &said)
}
