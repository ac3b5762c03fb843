//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/locking"
)

const (
	lockKills     = 3
	lockKillsSoak = 30
)

// TestKillLocks4 kills nfsrdmad while programs on two mounts of the guest, over
// RDMA and over TCP, lock parts of a file and count up, and once more while Linux
// reclaims.
func TestKillLocks4(t *testing.T) {
	guest(t)
	kills := lockKills
	if os.Getenv("INTEROP_SOAK") != "" {
		kills = lockKillsSoak
	}
	d := serve(t, "--no-root-squash")
	before := d.descriptors()
	require.NoError(t, locking.MakeWork(d.dir))
	s := d.site().by("4.2")
	var programs []*transactor
	var sessions []*Session
	for _, c := range []struct{ transport, point string }{{"rdma", "/mnt"}, {"tcp", "/mnt2"}} {
		s.mount(t, c.point, s.options(c.transport))
		for range 2 {
			g, err := guest(t).Open(t.Context(), fmt.Sprintf("exec guestwork locks %s %d", c.point, 1+len(programs)))
			require.NoError(t, err)
			t.Cleanup(g.Close)
			sessions = append(sessions, g)
			programs = append(programs, watch(t, fmt.Sprint(c.transport, " ", len(programs)), g, g))
		}
	}
	goOn := func() {
		t.Helper()
		for _, p := range programs {
			p.reach(p.now() + 2)
		}
	}
	for kill := 1; kill <= kills; kill++ {
		goOn()
		time.Sleep(rand.N(200 * time.Millisecond))
		d.proc.Kill()
		d.start()
		if kill%3 == 2 {
			time.Sleep(rand.N(2 * time.Second))
			d.proc.Kill()
			d.start()
		}
		start := time.Now()
		goOn()
		t.Logf("kill %d: all have gone on after %.1f s", kill, time.Since(start).Seconds())
	}
	total := 0
	for i, p := range programs {
		require.NoError(t, sessions[i].CloseWrite())
		last := p.last()
		assert.Zero(t, sessions[i].Status(), "%s: %s", p.name, last)
		assert.Equal(t, fmt.Sprint(p.now()), last)
		total += p.now()
	}
	umount(t, "/mnt2")
	umount(t, "/mnt")
	count, err := locking.Worked(d.dir)
	require.NoError(t, err)
	assert.EqualValues(t, total, count)
	d.settled(before)
	d.stop()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}
