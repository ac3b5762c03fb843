//go:build linux

package posix

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(tryEnv); dir != "" {
		_ = json.NewEncoder(os.Stdout).Encode(tryAll(dir))
		return
	}
	if file := os.Getenv(lockerFile); file != "" {
		if err := lockProcess(file, os.Stdin, os.Stdout); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if dirs := os.Getenv(fuseEnv); dirs != "" {
		if err := serveFUSE(dirs); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	// The runtime's poller has descriptors from its first use on.
	if r, w, err := os.Pipe(); err == nil {
		_, _ = r.Close(), w.Close()
	}
	os.Exit(m.Run())
}

// user returns the identity of the tests: as root another user, so that the
// kernel checks permissions.
func user() vfs.Cred {
	if os.Geteuid() == 0 {
		return vfs.Cred{UID: 70000, GID: 70000, Groups: []uint32{70100}}
	}
	return vfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

// An exportedDir is a served directory.
type exportedDir struct {
	dir string
	o   Options
}

// newExportedDir makes an empty directory, owned by user, in base.
func newExportedDir(t testing.TB, base string, o Options) *exportedDir {
	dir, err := os.MkdirTemp(base, "nfsrdma")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &exportedDir{dir: filepath.Join(dir, "export"), o: o}
	require.NoError(t, os.Mkdir(s.dir, 0o755))
	if c := user(); os.Geteuid() == 0 {
		require.NoError(t, os.Chown(s.dir, int(c.UID), int(c.GID)))
	}
	if o.StateDir == "" {
		s.o.StateDir = filepath.Join(dir, "state")
	}
	return s
}

func (s *exportedDir) path(name ...string) string {
	return filepath.Join(append([]string{s.dir}, name...)...)
}

func (s *exportedDir) open(t testing.TB) *FS {
	t.Helper()
	f, err := Open(s.dir, s.o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// kill leaves the directory's FS as a killed process would: the kernel closes descriptors, which
// unlocks the state directory. The table is not closed.
func (s *exportedDir) kill(t testing.TB) {
	if dir := fdOf(t, s.o.StateDir); dir >= 0 {
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		require.NoError(t, dupOver(int(null.Fd()), dir))
	}
}

// fdOf returns the only descriptor with which the process has a file open, or -1.
func fdOf(t testing.TB, path string) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := -1
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && name == path {
			require.Negative(t, found, "%s is open twice", path)
			found, err = strconv.Atoi(e.Name())
			require.NoError(t, err)
		}
	}
	return found
}

// kinds are the kinds of handles.
var kinds = map[string]Options{"kernel": {}, "known": {shareYoung: true}, "table": {TableHandles: true}}

// places are directories in two kinds of file systems.
var places = map[string]string{"tmpfs": "/dev/shm", "disk": ""}

// eachKind runs a test with each kind of handles, if its requirements are met.
func eachKind(t *testing.T, run func(t *testing.T, o Options)) {
	for kind, o := range kinds {
		t.Run(kind, func(t *testing.T) {
			if !o.TableHandles {
				vfstest.NeedRoot(t)
			}
			run(t, o)
		})
	}
}

// checkCleanup checks afterwards that all descriptors and goroutines are gone.
func checkCleanup(t testing.TB) {
	fds, gs := openFDs(t), runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 100 { // a goroutine that ends may still close a descriptor, and is counted for a moment
			if openFDs(t) <= fds && runtime.NumGoroutine() <= gs {
				return
			}
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, openFDs(t), fds, "descriptors left open")
		assert.LessOrEqual(t, runtime.NumGoroutine(), gs, "goroutines left")
	})
}

func openFDs(t testing.TB) int {
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}

func TestConformance(t *testing.T) {
	for place, base := range places {
		t.Run(place, func(t *testing.T) {
			eachKind(t, func(t *testing.T, o Options) {
				vfstest.Run(t, backend(base, o))
			})
			t.Run("exclusive", func(t *testing.T) {
				vfstest.Run(t, backend(base, Options{Exclusive: true, TableHandles: os.Geteuid() != 0}))
			})
		})
	}
}

func backend(base string, o Options) vfstest.Backend {
	sites := make(map[vfs.FS]*exportedDir)
	return vfstest.Backend{
		Caller: user(),
		Fill: func(t *testing.T, fs vfs.FS, names []string) {
			for _, name := range names {
				require.NoError(t, os.WriteFile(sites[fs].path(name), nil, 0o644))
				require.NoError(t, os.Chown(sites[fs].path(name), int(user().UID), -1))
			}
		},
		New: func(t *testing.T) vfs.FS {
			checkCleanup(t)
			s := newExportedDir(t, base, o)
			f := s.open(t)
			sites[f] = s
			return f
		},
		Restart: func(t *testing.T, old vfs.FS, killed bool) vfs.FS {
			if killed {
				sites[old].kill(t)
			} else {
				require.NoError(t, old.(*FS).Close())
			}
			f := sites[old].open(t)
			sites[f] = sites[old]
			return f
		},
	}
}
