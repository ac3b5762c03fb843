package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A twoMounts makes random changes to a small tree through two mounts of one
// server, sequentially. After each change both mounts must show the server's
// state.
type twoMounts struct {
	*rand.Rand
	t      *testing.T
	s      *testServer
	mounts [2]*testMount
	log    []string
}

var playDirs = []string{"", "p", "q"}

func (p *twoMounts) randomName() string {
	return filepath.Join(playDirs[p.IntN(len(playDirs))], string(rune('a'+p.IntN(4))))
}

// changeRandomly makes a change through one of the mounts. The change may fail.
func (p *twoMounts) changeRandomly(m *testMount) (what string, err error) {
	m.awaitNoOpenFiles()
	a, b := p.randomName(), p.randomName()
	switch p.IntN(11) {
	case 0, 1, 2:
		what = "write " + a
		err = os.WriteFile(m.path(a), fmt.Appendf(nil, "%d", p.IntN(10)), 0o644)
	case 3:
		what = "append to " + a
		var f *os.File
		if f, err = os.OpenFile(m.path(a), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, err = f.WriteString("+")
			err = errors.Join(err, f.Close())
		}
	case 4:
		what = "remove " + a
		err = os.Remove(m.path(a))
	case 5:
		what = "rename " + a + " to " + b
		err = os.Rename(m.path(a), m.path(b))
	case 6:
		what = "link " + a + " to " + b
		err = os.Link(m.path(a), m.path(b))
	case 7:
		what = "chmod " + a
		err = os.Chmod(m.path(a), fs.FileMode(0o600+p.IntN(8)))
	case 8:
		what = "truncate " + a
		err = os.Truncate(m.path(a), int64(p.IntN(3)))
	case 9:
		what = "mkdir " + a
		err = os.Mkdir(m.path(a), 0o755)
	case 10:
		what = "rename p to r and back"
		if err = os.Rename(m.path("p"), m.path("r")); err == nil {
			p.compareObject(p.mounts[p.IntN(2)], "r")
			p.compareObject(p.mounts[p.IntN(2)], "p")
			p.compareObject(p.mounts[p.IntN(2)], "r/a")
			err = os.Rename(m.path("r"), m.path("p"))
		}
	}
	return what, err
}

// compareObject compares an object in a mount with the server's.
func (p *twoMounts) compareObject(m *testMount, name string) {
	var here, there unix.Stat_t
	missing := unix.Lstat(p.s.path(name), &there)
	f, err := os.Open(m.path(name))
	if missing != nil {
		require.ErrorIs(p.t, err, missing, "%s: %q", name, p.log)
		return
	}
	require.NoError(p.t, err, "%s: %q", name, p.log)
	defer f.Close()
	require.NoError(p.t, unix.Fstat(int(f.Fd()), &here))
	require.Equal(p.t, comparableStat(&there), comparableStat(&here), "%s: %q", name, p.log)
	if there.Mode&unix.S_IFMT == unix.S_IFDIR {
		p.compareListing(m, name)
		return
	}
	want, err := os.ReadFile(p.s.path(name))
	require.NoError(p.t, err)
	got := make([]byte, 100)
	n, _ := f.Read(got)
	require.Equal(p.t, string(want), string(got[:n]), "%s: %q", name, p.log)
}

// comparableStat returns the fields of st that must agree between mount and server.
func comparableStat(st *unix.Stat_t) []any {
	return []any{st.Ino, st.Mode, st.Size, st.Nlink, st.Mtim, st.Ctim}
}

// compareListing compares the listing of a directory.
func (p *twoMounts) compareListing(m *testMount, dir string) {
	want, got := listNames(p.t, p.s.path(dir)), listNames(p.t, m.path(dir))
	sort.Strings(want)
	sort.Strings(got)
	require.Equal(p.t, want, got, "%s: %q", dir, p.log)
}

// TestHeldRandom checks that random changes through two mounts are seen by
// both.
func TestHeldRandom(t *testing.T) {
	s := newGrantingServer(t, true)
	for _, d := range playDirs[1:] {
		require.NoError(t, os.Mkdir(s.path(d), 0o755))
	}
	p := &twoMounts{Rand: rand.New(rand.NewPCG(1, 2)), t: t, s: s}
	for i := range p.mounts {
		p.mounts[i] = s.mount(nil)
	}
	for range 600 {
		who := p.IntN(2)
		what, err := p.changeRandomly(p.mounts[who])
		p.log = append(p.log[max(0, len(p.log)-20):], fmt.Sprintf("%d: %s: %v", who, what, err))
		for range 3 {
			p.compareObject(p.mounts[p.IntN(2)], p.randomName())
		}
		if p.IntN(4) == 0 {
			p.compareListing(p.mounts[p.IntN(2)], playDirs[p.IntN(len(playDirs))])
		}
	}
	stats := p.mounts[0].set.Stats()
	assert.Greater(t, stats.Served, stats.Granted)
	assert.NotZero(t, stats.Recalled)
	assert.Zero(t, s.keeper.Stats().Late)
}
