//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A heldLock is a lock, or a request for one, as nfsrdmad locks --json lists it.
type heldLock struct {
	Client, Type string
	Start        uint64
	End          *uint64
	Seconds      float64 `json:"waiting_seconds"`
}

// A heldFile is a file as nfsrdmad locks --json lists it.
type heldFile struct {
	Path  string
	Opens []struct {
		Client, Access string
		Version        string `json:"nfs_version"`
	}
	Locks, Waiters []heldLock
}

// heldIn returns the files that clients hold, and those of one file.
func heldIn(t *testing.T, control string, args ...string) []heldFile {
	t.Helper()
	out, err := exec.Command(programPath("nfsrdmad"), append([]string{"locks", "--json", "--control", control}, args...)...).Output()
	require.NoError(t, err)
	var l struct{ Files []heldFile }
	require.NoError(t, json.Unmarshal(out, &l))
	return l.Files
}

// TestHolders4 has a process of the guest lock bytes of a file, and one wait for them over another
// mount, which is another client: nfsrdmad locks lists what they do.
func TestHolders4(t *testing.T) {
	sharedGuest(t)
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--control", control)
	s := d.guestSite().withVersion("4.2")
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	s.mountInGuest(t, "/mnt2", s.mountOptions("tcp"))
	answers := make(lockAnswers)
	has, waits := answers.startInGuest(t, "/mnt"), answers.startInGuest(t, "/mnt2")
	answers.runSteps(t, []lockStep{{has, "posix 1 write 0 10", "ok"}, {has, "posix 1 read 100 0", "ok"}})
	fmt.Fprintln(waits, "posix-wait 1 write 5 1")
	path := filepath.Join(d.dir, "locked")
	var f heldFile
	eventually(t, func() bool {
		files := heldIn(t, control, path)
		if len(files) == 1 {
			f = files[0]
		}
		return len(f.Waiters) == 1 && f.Waiters[0].Seconds > 0
	}, daemonLimit, pollEvery)
	assert.Equal(t, []heldFile{{Path: f.Path, Opens: f.Opens, Locks: f.Locks}}, []heldFile{{Path: path, Opens: f.Opens, Locks: f.Locks}})
	require.Len(t, f.Opens, 2)
	clients := make(map[string]bool)
	for _, o := range f.Opens {
		clients[o.Client] = true
		assert.Equal(t, []string{"read+write", "4.2"}, []string{o.Access, o.Version})
	}
	assert.Len(t, clients, 2)
	nine, five, holder := uint64(9), uint64(5), f.Locks[0].Client
	assert.Equal(t, []heldLock{{Client: holder, Type: "write", End: &nine}, {Client: holder, Type: "read", Start: 100}}, f.Locks)
	w := f.Waiters[0]
	assert.NotEqual(t, holder, w.Client)
	assert.Equal(t, heldLock{w.Client, "write", 5, &five, w.Seconds}, w)

	answers.runSteps(t, []lockStep{{has, "posix 1 none 0 0", "ok"}})
	assert.Equal(t, "ok", answers.nextAnswer(t, waits))
	f = heldIn(t, control, path)[0]
	assert.Empty(t, f.Waiters)
	assert.Equal(t, []heldLock{{Client: w.Client, Type: "write", Start: 5, End: &five}}, f.Locks)
	for p := range answers {
		assert.NoError(t, p.Wait())
	}
	for _, point := range []string{"/mnt", "/mnt2"} {
		unmountInGuest(t, point)
	}
	eventually(t, func() bool { return len(heldIn(t, control)) == 0 }, closeLimit, pollEvery)
}
