//go:build linux

package posix

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// at returns the attributes of an inode with a ctime in nanoseconds.
func at(ino uint64, ctime int64) *unix.Statx_t {
	return &unix.Statx_t{Ino: ino, Ctime: unix.StatxTimestamp{Sec: ctime / 1e9, Nsec: uint32(ctime % 1e9)}}
}

// TestChangeCounts makes changes to files on a host whose clock ticks every few
// changes, forgets counts, and restarts. A file's change attribute must move
// with each change, and must never come back to an earlier value: R7862-10-1, R7862-12.2.3-2.
func TestChangeCounts(t *testing.T) {
	const files, tick, most = 40, lastTicks / 2, 1
	rnd := rand.New(rand.NewPCG(3, 4))
	now := int64(1 << 60)
	start := func() *changeCounts {
		c := newChangeCounts(most, func() int64 { return now })
		c.lost.Store(now)
		now += tick
		return c
	}
	c := start()
	type file struct {
		ctime int64
		last  uint64
	}
	all := make([]file, files)
	restarts, repeats := 0, 0
	of := func(i int) inode { return inode{1, uint64(i)} }
	for i := range all {
		all[i].ctime = now - rnd.Int64N(3)*tick
		all[i].last = c.changeOf(of(i), all[i].ctime)
	}
	for range 20_000 {
		i := rnd.IntN(files)
		f := &all[i]
		switch rnd.IntN(12) {
		case 0:
			now += tick
		case 1:
			if rnd.IntN(20) == 0 { // the process exits
				restarts++
				c = start()
			}
		case 2, 3, 4, 5, 6:
			if f.ctime == now {
				repeats++
			}
			before := f.ctime
			f.ctime = now
			c.noteChange(of(i), before, now, false)
			v := c.changeOf(of(i), now)
			require.Greater(t, v, f.last, "the change does not show")
			f.last = v
		default:
			v := c.changeOf(of(i), f.ctime)
			require.GreaterOrEqual(t, v, f.last, "the attribute of older content is back")
			f.last = v
		}
	}
	require.Greater(t, restarts, 10)
	require.Greater(t, repeats, 500)
	now += 3 * tick
	n := 0
	for i := range all {
		c.noteChange(of(i), now, now, false)
	}
	for i := range c.parts {
		assert.LessOrEqual(t, len(c.parts[i].counts), (files+changeParts-1)/changeParts)
		for _, have := range c.parts[i].counts {
			assert.Equal(t, now, have.ctime, "older counts are forgotten")
		}
		n += len(c.parts[i].counts)
	}
	assert.EqualValues(t, c.n.Load(), n)
	assert.Equal(t, files, n)
}

// TestChangeCountsStay checks what must not move the attribute of a file.
func TestChangeCountsStay(t *testing.T) {
	now := int64(1 << 60)
	c := newChangeCounts(10, func() int64 { return now })
	c.lost.Store(now - 100*longestTick)
	one, two, three := inode{1, 1}, inode{1, 2}, inode{1, 3}
	old := now - 2*longestTick
	c.noteChange(one, old, old, false)
	assert.EqualValues(t, old, c.changeOf(one, old), "an operation without an effect on an old file")
	c.noteChange(two, now, now, false)
	assert.EqualValues(t, now+1, c.changeOf(two, now))
	assert.EqualValues(t, now, c.changeOf(three, now), "another file")
	assert.EqualValues(t, now, c.changeOf(inode{2, 2}, now), "a file of another device")
	c.noteChange(two, now, now+5_000_000, false)
	assert.Zero(t, c.n.Load(), "the count is of no more use")
	old = now - 200*longestTick
	assert.EqualValues(t, old+lostCount, c.changeOf(three, old), "it may have had a count")
}

// TestChangeCountsTwo notes a change that moved ctime after somebody else's change in the same tick
// was counted, and returned.
func TestChangeCountsTwo(t *testing.T) {
	now := int64(1 << 60)
	c := newChangeCounts(10, func() int64 { return now })
	one := inode{1, 1}
	c.noteChange(one, now, now, true)
	told := c.changeOf(one, now)
	c.noteChange(one, now-lastTicks, now, true)
	assert.Greater(t, c.changeOf(one, now), told)
}

// TestChangeCountsLater notes two changes in the other order.
func TestChangeCountsLater(t *testing.T) {
	now := int64(1 << 60)
	c := newChangeCounts(10, func() int64 { return now })
	one, old := inode{1, 1}, now-lastTicks
	c.noteChange(one, old, old, true)
	c.noteChange(one, now, now, true)
	assert.EqualValues(t, now+1, c.changeOf(one, now))
	assert.NotContains(t, []uint64{uint64(old), uint64(old + 1)}, c.changeOf(one, old), "a value of older content is back")
	c.noteChange(one, old, old, true)
	c.noteChange(one, old-1, old, false)
	assert.EqualValues(t, now+1, c.changeOf(one, now))
	now -= 2 * lastTicks // the clock is set back
	c.noteChange(one, now, now, true)
	assert.EqualValues(t, now+1, c.changeOf(one, now))
}

// TestChangeCoarse writes to a file system whose times turn out to be coarser
// than expected.
func TestChangeCoarse(t *testing.T) {
	checkCleanup(t)
	f := newExportedDir(t, "", Options{TableHandles: true}).open(t)
	f.coarseCtime.Store(false)
	st := at(1, kernelNow())
	f.noteChange(st, st, false)
	assert.False(t, f.coarseCtime.Load(), "there may have been no change")
	f.noteChange(st, at(1, nanoseconds(st.Ctime)+1), true)
	assert.False(t, f.coarseCtime.Load())
	f.noteChange(st, st, true)
	assert.True(t, f.coarseCtime.Load())
	assert.NotEqual(t, uint64(nanoseconds(st.Ctime)), f.changeAttr(st))
	f.clockTick = 1000
	st.Ctime.Nsec = 1999
	assert.EqualValues(t, 1000, f.ctimeNanos(st)%1e9)
}

// TestChangeEveryOperation checks that each change of an object shows, with
// times of either kind.
func TestChangeEveryOperation(t *testing.T) {
	for name, tick := range map[string]int64{"kernel": 0, "coarse": 10_000_000} {
		t.Run(name, func(t *testing.T) {
			checkCleanup(t)
			f := newExportedDir(t, "", Options{TableHandles: true}).open(t)
			if f.clockTick = tick; tick > 0 {
				f.coarseCtime.Store(true)
			}
			c := user()
			ctx := t.Context()
			value := func(h vfs.Handle) uint64 {
				a, err := f.GetAttr(ctx, &c, h)
				require.NoError(t, err)
				require.True(t, a.HasChange)
				return a.Change
			}
			moves := func(what string, w vfs.WCC, before uint64, h vfs.Handle) {
				t.Helper()
				after := value(h)
				assert.Greater(t, after, before, what)
				assert.Equal(t, before, w.Before.Change, what)
				assert.Equal(t, after, w.After.Change, what)
			}
			root := f.Root()
			for range 3 {
				before := value(root)
				made, err := f.Create(ctx, &c, root, "f", vfs.CreateHow{Mode: vfs.Guarded})
				require.NoError(t, err)
				require.True(t, made.Attr.HasBirth)
				moves("create", made.Dir, before, root)
				file := made.Handle
				for range 3 {
					before = value(file)
					_, _, w, err := f.Write(ctx, &c, file, []byte("data"), 0, vfs.Unstable)
					require.NoError(t, err)
					moves("write", w, before, file)
				}
				o, err := f.OpenFile(ctx, &c, file, openBoth)
				require.NoError(t, err)
				for range 3 {
					before = value(file)
					_, _, err = o.Write.Write(ctx, []byte("data"), 0, vfs.Unstable)
					require.NoError(t, err)
					require.Greater(t, value(file), before, "write to an open file")
					before = value(file)
					require.NoError(t, o.Write.SetSize(ctx, 1))
					require.Greater(t, value(file), before, "truncation of an open file")
				}
				o.Close()
				for size := range uint64(3) {
					before = value(file)
					_, err = f.Create(ctx, &c, root, "f", vfs.CreateHow{Mode: vfs.Unchecked, Attr: vfs.SetAttr{Size: &size}})
					require.NoError(t, err)
					require.Greater(t, value(file), before, "create of a file that exists")
				}
				before = value(file)
				size := uint64(1)
				w, err := f.SetAttr(ctx, &c, file, vfs.SetAttr{Size: &size}, nil)
				require.NoError(t, err)
				moves("setattr", w, before, file)
				before, own := value(root), value(file)
				_, w, err = f.Link(ctx, &c, file, root, "g")
				require.NoError(t, err)
				moves("link", w, before, root)
				assert.Greater(t, value(file), own, "link")
				before = value(root)
				w, _, err = f.Rename(ctx, &c, root, "g", root, "h")
				require.NoError(t, err)
				moves("rename", w, before, root)
				for _, to := range []string{"h", "f"} {
					before, own = value(root), value(file)
					w, _, err = f.Rename(ctx, &c, root, "h", root, to)
					require.NoError(t, err)
					assert.Equal(t, []uint64{before, before, before}, []uint64{w.Before.Change, w.After.Change, value(root)}, "rename to another name of the object")
					assert.Equal(t, own, value(file))
				}
				before, own = value(root), value(file)
				w, err = f.Remove(ctx, &c, root, "h")
				require.NoError(t, err)
				moves("remove", w, before, root)
				assert.Greater(t, value(file), own, "remove of a name")
				_, err = f.Remove(ctx, &c, root, "f")
				require.NoError(t, err)
			}
		})
	}
}

func TestKernelAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"6.13.0": true, "6.13-rc1": true, "6.12.99": false, "7.0": true, "10": true, "5.15.0-generic": false, "": false, "x": false,
		"99999999999999999999.1": true,
	} {
		assert.Equal(t, want, kernelAtLeast(release, 6, 13), release)
	}
}

// TestChangeOfSlowClock changes a file of another host, whose clock is behind
// this host's.
func TestChangeOfSlowClock(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.f.coarseCtime.Store(true)
	st := at(1<<62, kernelNow()-int64(time.Minute))
	last := w.f.changeAttr(st)
	for range 3 {
		w.f.noteChange(st, st, true)
		assert.Greater(t, w.f.changeAttr(st), last)
		last = w.f.changeAttr(st)
	}
}
