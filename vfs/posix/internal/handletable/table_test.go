//go:build linux

package handletable

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var testRoot = ID{Ino: 2, Birth: 3}

func openTestTable(t *testing.T, dir string) *Table {
	t.Helper()
	tab, err := Open(dir, testRoot, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tab.Close() })
	return tab
}

func numbered(i uint64) *Entry {
	return &Entry{ID: ID{Ino: i, Birth: i * i}, Places: []Place{{i / 2, fmt.Sprint("name", i)}}}
}

func putAll(t *testing.T, tab *Table, entries ...*Entry) {
	t.Helper()
	for _, e := range entries {
		require.NoError(t, tab.Put(e))
	}
	require.NoError(t, tab.flushPending())
}

func assertEntry(t *testing.T, tab *Table, want *Entry) {
	t.Helper()
	got, ok, err := tab.Get(want.Ino)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, *want, got)
}

func TestTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "state")
	for _, dir := range []string{"", dir} {
		tab := openTestTable(t, dir)
		_, ok, err := tab.Get(7)
		require.NoError(t, err)
		assert.False(t, ok)
		for i := range uint64(100) {
			require.NoError(t, tab.Put(numbered(i)))
			assertEntry(t, tab, numbered(i)) // before the record is on file
		}
		require.NoError(t, tab.flushPending())
		newer := numbered(50)
		newer.Places = []Place{{1, "newer"}}
		putAll(t, tab, newer, &Entry{ID: numbered(51).ID})
		assertEntry(t, tab, newer)
		assertEntry(t, tab, numbered(99))
		assert.Equal(t, 99, tab.live, "removed objects are not counted")
		require.NoError(t, tab.Close())
	}
	tab := openTestTable(t, dir)
	assert.Equal(t, 99, tab.records, "rewritten without invalid records")
	for i := range uint64(50) {
		assertEntry(t, tab, numbered(i))
	}
	_, ok, err := tab.Get(51)
	require.NoError(t, err)
	assert.False(t, ok)
}

func TestTableIsLocked(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	_, err := Open(dir, testRoot, nil, slog.New(slog.DiscardHandler))
	assert.ErrorIs(t, err, unix.EWOULDBLOCK)
	assert.ErrorContains(t, err, dir)
	require.NoError(t, tab.Close())
	openTestTable(t, dir)
}

func TestTableOfAnother(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1))
	require.NoError(t, tab.Close())
	other, err := Open(dir, ID{Ino: 2, Birth: 4}, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	assert.Zero(t, other.live)
	require.NoError(t, other.Close())
}

// TestTableCut checks that all earlier records are valid if a crash cut off a
// write at any byte, and that more records can follow.
func TestTableCut(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1), numbered(2))
	whole := tab.size
	putAll(t, tab, numbered(3))
	end := tab.size
	require.NoError(t, tab.Close())
	file := filepath.Join(dir, FileName)
	all, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, all, int(end))
	for cut := whole; cut < end; cut++ {
		require.NoError(t, os.WriteFile(file, all[:cut], 0o600))
		tab := openTestTable(t, dir)
		assert.Equal(t, whole, tab.size)
		assertEntry(t, tab, numbered(1))
		assertEntry(t, tab, numbered(2))
		putAll(t, tab, numbered(4))
		require.NoError(t, tab.Close())
		tab = openTestTable(t, dir)
		assertEntry(t, tab, numbered(4))
		require.NoError(t, tab.Close())
	}
	// Bytes that are no record also end the log, for any length that they
	// state.
	require.NoError(t, os.WriteFile(file, append(all[:end:end], 1, 2, 3, 4, 0xff, 0xff, 7), 0o600))
	tab = openTestTable(t, dir)
	assert.Equal(t, end, tab.size)
	// A file with an incomplete header is a new table.
	require.NoError(t, tab.Close())
	require.NoError(t, os.WriteFile(file, all[:10], 0o600))
	assert.Zero(t, openTestTable(t, dir).live)
}

// TestTableCompacts checks that the file does not grow forever, nor memory for
// removed objects.
func TestTableCompacts(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		tab := openTestTable(t, dir)
		most := int64(0)
		for i := range uint64(5 * compactSlack) {
			e := numbered(i % 10)
			if i%3 == 0 {
				e = &Entry{ID: numbered(1000 + i).ID, Dead: true}
			}
			putAll(t, tab, e)
			most = max(most, tab.size)
		}
		assert.Less(t, most, int64(compactSlack*100))
		assert.Less(t, len(tab.index), 2*compactSlack)
		for i := range uint64(10) {
			assertEntry(t, tab, numbered(i))
		}
		if dir != "" {
			ents, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, ents, 1)
		}
	}
}

// TestTableFull checks that new handles fail on a full disk, and that the table stays intact, and
// works again when there is space.
func TestTableFull(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1))
	disk := tab.file
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	tab.file = full
	require.NoError(t, tab.Put(numbered(2)))
	assert.ErrorIs(t, tab.flushPending(), unix.ENOSPC)
	for err == nil {
		err = tab.Put(numbered(3))
	}
	assert.ErrorIs(t, err, unix.ENOSPC, "pending records are bounded")
	require.NoError(t, full.Close())
	tab.file = disk
	require.NoError(t, tab.flushPending())
	for i := range uint64(3) {
		assertEntry(t, tab, numbered(i+1))
	}
}

func BenchmarkTableGet(b *testing.B) {
	tab, err := Open("", testRoot, nil, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	defer tab.Close()
	require.NoError(b, tab.Put(numbered(1)))
	require.NoError(b, tab.flushPending())
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = tab.Get(1)
	}
}

// TestTableDamaged checks that damage in the middle of the file loses no later
// records.
func TestTableDamaged(t *testing.T) {
	const n = 100
	for name, damage := range map[string]func(b []byte){
		"zeros":  func(b []byte) { clear(b) },
		"ones":   func(b []byte) { copy(b, bytes.Repeat([]byte{0xff}, len(b))) },
		"length": func(b []byte) { b[4], b[5] = 0, 7 },
		"text":   func(b []byte) { b[recordFixed+placeFixed]++ },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tab := openTestTable(t, dir)
			for i := range uint64(n) {
				putAll(t, tab, numbered(i))
			}
			at, end := tab.index[50], tab.index[51]
			require.NoError(t, tab.Close())
			file := filepath.Join(dir, FileName)
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			damage(b[at:end])
			require.NoError(t, os.WriteFile(file, b, 0o600))
			for range 2 {
				tab = openTestTable(t, dir)
				assert.Equal(t, n-1, tab.live)
				assert.Equal(t, n-1, tab.records)
				for i := range uint64(n) {
					if i != 50 {
						assertEntry(t, tab, numbered(i))
					}
				}
				putAll(t, tab, numbered(7))
				require.NoError(t, tab.Close())
			}
		})
	}
}

// TestTableAside checks that a directory's table comes back when its path leads
// to the directory again.
func TestTableAside(t *testing.T) {
	dir := t.TempDir()
	open := func(birth uint64) *Table {
		tab, err := Open(dir, ID{Ino: 2, Birth: birth}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return tab
	}
	const all = maxAside + 3
	for birth := range uint64(all) {
		tab := open(birth)
		assert.Zero(t, tab.live)
		putAll(t, tab, numbered(birth+10))
		require.NoError(t, tab.Close())
		// The order in which the tables are set aside counts, not when they
		// were written.
		when := time.Unix(int64(all-birth), 0)
		require.NoError(t, os.Chtimes(filepath.Join(dir, FileName), when, when))
	}
	const kept = all - 1 - maxAside // the current one is not set aside
	for birth := uint64(kept); birth < all; birth++ {
		tab := open(birth)
		assert.Equal(t, 1, tab.live)
		assertEntry(t, tab, numbered(birth+10))
		require.NoError(t, tab.Close())
	}
	tab := open(kept - 1)
	assert.Zero(t, tab.live, "more than the bound are not kept")
	require.NoError(t, tab.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Len(t, names, 1+maxAside)
}

// TestTableAsideCrash checks that a crash at any step of a swap loses no table,
// whichever directory the path leads to afterwards.
func TestTableAsideCrash(t *testing.T) {
	open := func(dir string, birth uint64) *Table {
		tab, err := Open(dir, ID{Ino: 2, Birth: birth}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return tab
	}
	const steps = 2
	for done := range steps + 1 {
		for left, leave := range map[string]func(t *testing.T, name string){
			"missing": func(*testing.T, string) {},
			"empty":   func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name, nil, 0o600)) },
			"torn":    func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name, []byte(tableMagic), 0o600)) },
		} {
			for _, then := range [][]uint64{{0, 1}, {1, 0}} {
				t.Run(fmt.Sprint(done, " steps, ", left, ", then ", then), func(t *testing.T) {
					dir := t.TempDir()
					for birth := range uint64(2) {
						tab := open(dir, birth)
						putAll(t, tab, numbered(birth+10))
						require.NoError(t, tab.Close())
					}
					tab := open(dir, 1)
					first := ID{Ino: 2}
					tab.head = first.AppendTo([]byte(tableMagic))
					all, err := tab.swapSteps()
					require.NoError(t, err)
					require.NoError(t, tab.Close())
					require.Len(t, all, steps)
					for _, s := range all[:done] {
						require.NoError(t, os.Rename(filepath.Join(dir, s.from), filepath.Join(dir, s.to)))
					}
					name := filepath.Join(dir, FileName)
					if _, err := os.Lstat(name); err != nil {
						leave(t, name)
					}
					for _, birth := range then {
						tab := open(dir, birth)
						assert.Equal(t, 1, tab.live)
						assertEntry(t, tab, numbered(birth+10))
						require.NoError(t, tab.Close())
					}
				})
			}
		}
	}
}

// TestTableAsideUnread checks that a table whose header cannot be read at
// present is neither emptied nor replaced.
func TestTableAsideUnread(t *testing.T) {
	dir := t.TempDir()
	for birth := range uint64(2) { // one table is set aside
		tab, err := Open(dir, ID{Ino: 2, Birth: birth}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		putAll(t, tab, numbered(birth+10))
		require.NoError(t, tab.Close())
	}
	name := filepath.Join(dir, FileName)
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	first := ID{Ino: 2}
	l := logFile{mayWrite: func() error { return nil }, head: first.AppendTo([]byte(tableMagic))}
	l.dir, err = os.Open(dir)
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.close()) }()
	l.file, err = os.OpenFile(name, os.O_WRONLY, 0) // reading fails
	require.NoError(t, err)
	assert.ErrorIs(t, l.swapLogs(), unix.EBADF)
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// TestTableFullAtOpen checks that a disk too full for compaction does not prevent serving the
// export, and that no file is left that takes space.
func TestTableFullAtOpen(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1), numbered(1), numbered(2))
	require.NoError(t, tab.Close())
	next := filepath.Join(dir, tableNext)
	require.NoError(t, os.Symlink("/dev/full", next))
	tab = openTestTable(t, dir)
	assertEntry(t, tab, numbered(1))
	_, err := os.Lstat(next)
	assert.ErrorIs(t, err, os.ErrNotExist)
	putAll(t, tab, numbered(3))
	require.NoError(t, tab.Close())
	tab = openTestTable(t, dir)
	for i := range uint64(3) {
		assertEntry(t, tab, numbered(i+1))
	}
}

// TestTableSyncUnderWay checks that a sync during another one waits, and tries
// again if that one fails.
func TestTableSyncUnderWay(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1))
	torn, err := os.Stat(filepath.Join(dir, FileName))
	require.NoError(t, err)
	begun, fail := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	tab.fsync = func(f *os.File) error {
		if syncs.Add(1) > 1 {
			return f.Sync()
		}
		close(begun)
		<-fail
		return unix.EIO
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- tab.Sync() }()
	receiveSoon(t, begun, "no file is synced")
	go func() { second <- tab.Sync() }()
	select {
	case <-second:
		t.Error("the record is not on stable storage")
		second <- nil
	case <-time.After(20 * time.Millisecond):
	}
	close(fail)
	assert.ErrorIs(t, receiveSoon(t, first, "no end"), unix.EIO)
	assert.NoError(t, receiveSoon(t, second, "no end"))

	// Linux may treat pages that it failed to write as written.
	anew, err := os.Stat(filepath.Join(dir, FileName))
	require.NoError(t, err)
	assert.False(t, os.SameFile(torn, anew), "the error names the log")
	putAll(t, tab, numbered(2))
	assert.NoError(t, tab.Sync())
	assert.EqualValues(t, 2, syncs.Load())
}

// TestTableReplacedUnderSync checks that a log that replaces the one being
// synced is not on stable storage before its name is.
func TestTableReplacedUnderSync(t *testing.T) {
	dir := t.TempDir()
	tab := openTestTable(t, dir)
	putAll(t, tab, numbered(1))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	unsynced := os.NewFile(uintptr(fd), dir) // whose sync fails
	defer unsynced.Close()
	tab.fsync = func(f *os.File) error {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		own := tab.dir
		tab.dir = unsynced
		assert.NoError(t, tab.compactLog())
		tab.dir = own
		return f.Sync()
	}
	assert.ErrorIs(t, tab.Sync(), unix.EIO)
	assert.NoError(t, tab.Sync(), "rewritten")
	putAll(t, tab, numbered(2))
	tab.fsync = func(f *os.File) error {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		assert.NoError(t, tab.compactLog())
		return f.Sync()
	}
	assert.NoError(t, tab.Sync(), "its name exists")
}

func receiveSoon[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
	return v
}
