//go:build interop

package standby

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
)

// exitTenure is the exit status of a host whose tenure is over.
const exitTenure = 75

// An outage is a way in which the serving host stops.
type outage struct {
	name string
	// happen lets the host fail, and returns when another may serve.
	happen func(h *host)
	// finish ends the host after another one serves, and returns its exit status.
	finish func(h *host) int
	status int // the expected exit status
}

var outages = []outage{
	{"cut off", func(h *host) { h.mount.Cut() }, func(h *host) int {
		h.mount.Restore()
		return h.ExitCode()
	}, exitTenure},
	{"killed", func(h *host) { h.Signal(unix.SIGKILL) }, (*host).ExitCode, -1},
	{"paused", func(h *host) { h.Stop() }, func(h *host) int {
		time.Sleep(3 * tenureTime) // meanwhile calls arrive
		h.Signal(unix.SIGCONT)
		return h.ExitCode()
	}, exitTenure},
	{"planned", func(h *host) { h.Signal(unix.SIGTERM) }, (*host).ExitCode, 0},
}

// rounds is how often each outage happens: INTEROP_OUTAGES, or once.
func rounds(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("INTEROP_OUTAGES"), "1"))
	require.NoError(t, err, "INTEROP_OUTAGES")
	return n
}

// change lets the serving host fail, and returns when it has ended, and waits again.
func (c *cluster) change(o outage) {
	c.t.Helper()
	old := c.serving
	o.happen(old)
	c.serving = c.waiting
	c.serving.awaitServing()
	require.Equal(c.t, o.status, o.finish(old), "exit status of host %s, %s", old.name, o.name)
	old.end()
	c.waiting = c.start(old.name)
	c.waiting.awaitWaiting()
}

// gaps are the longest gaps of the writers in one place, by outage.
type gaps map[string]map[string][]time.Duration

func (g gaps) add(outage string, longest map[string]time.Duration) {
	for place, gap := range longest {
		if g[place] == nil {
			g[place] = make(map[string][]time.Duration)
		}
		g[place][outage] = append(g[place][outage], gap)
	}
}

func (g gaps) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-10s %5s %9s %9s", "outage", "client", "times", "median", "max")
	for _, o := range outages {
		for _, place := range slices.Sorted(maps.Keys(g)) {
			d := slices.Sorted(slices.Values(g[place][o.name]))
			fmt.Fprintf(&b, "\n%-8s %-10s %5d %7.2f s %7.2f s", o.name, place, len(d), d[len(d)/2].Seconds(), d[len(d)-1].Seconds())
		}
	}
	return b.String()
}

// TestOutages lets the serving host be cut off from the file system, killed, paused and
// stopped, while clients write and read. No client gets an error, everything that was
// acknowledged is there, and the file system's record shows that no host has done anything
// after the next one's first operation.
func TestOutages(t *testing.T) {
	c := startCluster(t, clusterfs.Options{KeepLocks: clusterfs.Never})
	l := startLoad(t, 4, "rdma", "tcp", mountList(t, "rdma"), mountList(t, "tcp"))
	l.awaitProgress()
	took := gaps{}
	turns := []string{"a"}
	checked := 0
	for range rounds(t) {
		for _, o := range outages {
			l.resetGaps()
			c.change(o)
			took.add(o.name, l.awaitProgress())
			turns = append(turns, c.serving.name)
			checked += l.checkBacking(c.data())
			c.checkReports()
			require.False(t, t.Failed(), "%s", o.name)
		}
	}
	l.end()
	checked += l.checkBacking(c.data())
	assertTurns(t, c, turns)
	t.Logf("%d changes, %d blocks checked, %d late operations rejected; T is %v; the gap is a writer's longest without a reply:\n%s",
		len(turns)-1, checked, countRejected(c.fs.Records()), tenureTime, took)
}

// checkReports checks what both hosts say.
func (c *cluster) checkReports() {
	c.t.Helper()
	for _, h := range []*host{c.serving, c.waiting} {
		waits := h == c.waiting
		state, code, metric := "serving", http.StatusOK, "nfsrdma_standby_waiting 0\n"
		if waits {
			state, code, metric = "standby", http.StatusServiceUnavailable, "nfsrdma_standby_waiting 1\n"
		}
		s, ok := h.status()
		require.True(c.t, ok, "%s", h.said)
		assert.Equal(c.t, state, s.Daemon.State)
		assert.Equal(c.t, waits, s.Standby.Waiting)
		assert.Equal(c.t, waits, s.Standby.Left == 0, "%+v", s)
		assert.True(c.t, strings.HasPrefix(s.Standby.Fence, "command "), s.Standby.Fence)
		if waits {
			assert.Contains(c.t, s.Standby.Text, "standby: host "+c.serving.name+" serves (seen ")
		}
		got, body, err := h.get("/healthz")
		require.NoError(c.t, err)
		assert.Equal(c.t, code, got, body)
		_, body, err = h.get("/metrics")
		require.NoError(c.t, err)
		assert.Contains(c.t, body, metric)
	}
}
