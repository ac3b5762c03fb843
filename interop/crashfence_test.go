//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fenceLease is long enough for a restart while a client trusts its cache.
const fenceLease = 9 * time.Second

// TestCrashFence kills nfsrdmad while a mount of mountrdma that caches is cut
// off, so that the mount learns neither of the end nor of the next start. The
// mount still serves from its cache then. Changes by Linux over TCP, by versions
// 3 and 4.2, must wait until it no longer does; reads must not wait.
func TestCrashFence(t *testing.T) {
	sharedGuest(t)
	d := startDaemon(t, "--no-root-squash", "--exclusive", "--lease", fenceLease.String())
	names := []string{"3", "4.2"}
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte("first\n"), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "other"), []byte("other\n"), 0o644))
	r := newRelay(t, d.rdma, hiddenSupport{})
	m := mountServer{addr: r.addr, guestSite: d.guestSite()}.mountFUSE(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(m.point, name))
		assert.NoError(t, err)
		return string(b)
	}
	points := map[string]string{"3": "/mnt", "4.2": "/mnt2"}
	for name, point := range points {
		s := d.guestSite().withVersion(strings.TrimPrefix(name, "3"))
		s.mountInGuest(t, point, s.mountOptions("tcp", "actimeo=0"))
		assert.Equal(t, "first\n", mustInGuest(t, "cat "+point+"/"+name))
	}
	for range 3 { // held, and in the kernel's cache
		for _, name := range names {
			require.Equal(t, "first\n", read(name))
		}
	}
	calls := m.countCalls("READ") + m.countCalls("GETATTR") + m.countCalls("LOOKUP")

	r.silent.Lock()
	thaw := sync.OnceFunc(r.silent.Unlock)
	t.Cleanup(thaw)
	d.proc.Kill()
	start := time.Now()
	d.startProcess()
	var changes sync.WaitGroup
	var mu sync.Mutex
	changed := make(map[string]bool)
	for _, name := range names {
		changes.Go(func() {
			out, status, err := sharedGuest(t).Exec(t.Context(), "echo second >"+points[name]+"/"+name)
			waited := time.Since(start)
			mu.Lock()
			changed[name] = true
			mu.Unlock()
			assert.NoError(t, err)
			assert.Zero(t, status, out)
			assert.GreaterOrEqual(t, waited, fenceLease, "a change over NFSv%s", name)
			t.Logf("version %s: changed %.1f s after the start", name, waited.Seconds())
		})
	}
	believed := 0
	for ; time.Since(start) < fenceLease/3; time.Sleep(pollEvery) {
		for _, name := range names {
			require.Equal(t, "first\n", read(name))
			believed++
		}
	}
	assert.Equal(t, calls, m.countCalls("READ")+m.countCalls("GETATTR")+m.countCalls("LOOKUP"), "the mount has asked the server")
	t.Logf("%d reads from the cache after the crash", believed)
	assert.Equal(t, "other\nother\n", mustInGuest(t, "cat /mnt/other /mnt2/other"))
	assert.Less(t, time.Since(start), fenceLease, "a read of the server waits")
	var reads sync.WaitGroup
	for _, name := range names {
		reads.Go(func() { // until the mount sees the change
			for {
				mu.Lock()
				after := changed[name]
				mu.Unlock()
				got := read(name)
				if got == "second\n" || t.Failed() {
					return
				}
				assert.False(t, after, "%q from %s, although the change has been acknowledged", got, name)
			}
		})
	}
	changes.Wait()
	thaw()
	r.resetAll()
	reads.Wait()
	m.unmountFUSE()
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}
