package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	testName = "list"
	testText = "test records 1"
)

// reopen opens the journal of a disk.
func reopen(t testing.TB, d disk) (*Journal, Found) {
	t.Helper()
	j, found, err := open(d, testName, testText)
	require.NoError(t, err)
	return j, found
}

func list(records [][]byte) (all []string) {
	for _, r := range records {
		all = append(all, string(r))
	}
	return all
}

func record(s string) []byte { return []byte(s) }

// TestHost uses files of the host: records come back in their order, over
// Appends and Replace, and an empty record is one too.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Journal, Found) {
		j, found, err := Open(dir, testName, testText)
		require.NoError(t, err)
		return j, found
	}
	j, found := open()
	assert.Equal(t, Found{}, found)
	require.NoError(t, j.Append(record("a"), nil, record("b")))
	require.NoError(t, j.Append())
	require.NoError(t, j.Append(record("c")))
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	assert.ErrorIs(t, j.Append(record("late")), ErrClosed)
	assert.ErrorIs(t, j.Replace(func() [][]byte { return nil }), ErrClosed)

	j, found = open()
	assert.Equal(t, []string{"a", "", "b", "c"}, list(found.Records))
	before := j.Size()
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("d")} }))
	assert.Less(t, j.Size(), before)
	require.NoError(t, j.Append(record("e")))
	info, err := os.Stat(filepath.Join(dir, testName))
	require.NoError(t, err)
	assert.Equal(t, j.Size(), info.Size())
	assert.EqualValues(t, 0o600, info.Mode())
	require.NoError(t, j.Close())

	j, found = open()
	assert.Equal(t, []string{"d", "e"}, list(found.Records))
	require.NoError(t, j.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "files besides the journal")

	_, _, err = Open(filepath.Join(dir, "missing"), testName, testText)
	assert.ErrorContains(t, err, "missing/"+testName)
}

// TestLong stores the longest records, in units of their own and with others,
// and refuses longer ones.
func TestLong(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	longest := make([]byte, MaxRecord)
	assert.ErrorIs(t, j.Append(append(longest, 0)), ErrTooLong)
	var many [][]byte
	for range maxUnit / (recordHead + MaxRecord) {
		many = append(many, longest)
	}
	require.NoError(t, j.Append(many...))
	assert.ErrorIs(t, j.Append(append(many, longest)...), ErrTooLong)
	assert.ErrorIs(t, j.Replace(func() [][]byte { return [][]byte{append(longest, 0)} }), ErrTooLong)
	require.NoError(t, j.Append(longest))
	_, found := reopen(t, d)
	assert.Len(t, found.Records, len(many)+1)
	all := append(slices.Repeat(many, 3), record("end"))
	require.NoError(t, j.Replace(func() [][]byte { return all }))
	_, found = reopen(t, d)
	assert.Equal(t, all, found.Records)
}

// sample returns the bytes of a journal, and the ends of its units with the
// number of records up to each.
func sample(t testing.TB) (b []byte, ends map[int]int) {
	d := newDisk()
	j, _ := reopen(t, d)
	ends = map[int]int{int(j.Size()): 0}
	for i := range 4 {
		require.NoError(t, j.Append(record(strings.Repeat("x", 3*i)), record("second")))
		ends[int(j.Size())] = 2 * (i + 1)
	}
	return d.names[testName].b, ends
}

// TestCut cuts a journal at each byte: the whole units are there, and the rest
// gives way to new ones.
func TestCut(t *testing.T) {
	whole, ends := sample(t)
	head := len(testText) + 1 + 16 + 8 + 1
	var all []string
	for i := range 4 {
		all = append(all, strings.Repeat("x", 3*i), "second")
	}
	for n := range len(whole) + 1 {
		d := newDisk()
		d.put(whole[:n])
		j, found := reopen(t, d)
		records := 0
		for end, count := range ends {
			if end <= n {
				records = max(records, count)
			}
		}
		_, exact := ends[n]
		assert.Equal(t, all[:records], append([]string{}, list(found.Records)...), "%d bytes", n)
		assert.Equal(t, n < head, found.Void, "%d bytes", n)
		assert.Equal(t, n >= head && !exact, found.Torn, "%d bytes", n)
		require.NoError(t, j.Append(record("after")))
		_, again := reopen(t, d)
		assert.Equal(t, append(list(found.Records), "after"), list(again.Records), "%d bytes", n)
		assert.False(t, again.Torn, "%d bytes", n)
	}
}

// TestDamage changes each byte of a journal: no wrong record is found, and only
// damage in the last unit passes for a torn Append.
func TestDamage(t *testing.T) {
	whole, ends := sample(t)
	last := 0 // of the units but the last
	for end := range ends {
		if end < len(whole) {
			last = max(last, end)
		}
	}
	d := newDisk()
	d.put(whole)
	_, all := reopen(t, d)
	for at := range whole {
		for flip := 1; flip < 256; flip++ {
			d := newDisk()
			b := slices.Clone(whole)
			b[at] ^= byte(flip)
			d.put(b)
			j, found := reopen(t, d)
			if at < last {
				assert.True(t, found.Void, "byte %d", at)
				assert.Empty(t, found.Records, "byte %d", at)
				assert.Equal(t, b, d.names[testName+damagedSuffix].b)
			} else {
				assert.True(t, found.Torn, "byte %d", at)
				assert.Equal(t, list(all.Records[:6]), list(found.Records), "byte %d", at)
			}
			require.NoError(t, j.Append(record("after")))
		}
	}
}

// TestEmbedded stores a record with the bytes of a unit. When that Append is
// torn, the unit within does not pass for a readable one.
func TestEmbedded(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	var guess salt
	require.NoError(t, j.Append(guess.appendUnit(nil, appendRecord(nil, record("forged"))), record("rest")))
	inode := d.names[testName]
	inode.b = inode.b[:len(inode.b)-1]
	_, found := reopen(t, d)
	assert.Equal(t, Found{Torn: true}, found)
}

// TestTornLong tears the longest unit, whose records imitate heads of units
// everywhere. It is torn and not void, and the search for a unit in it is short.
func TestTornLong(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	require.NoError(t, j.Append(record("kept")))
	hostile := []byte(strings.Repeat("\x00\x0e", MaxRecord/2))
	require.NoError(t, j.Append(slices.Repeat([][]byte{hostile}, maxUnit/(recordHead+MaxRecord))...))
	d.put(d.names[testName].b[:j.Size()-1])
	start := time.Now()
	_, found := reopen(t, d)
	assert.Equal(t, Found{Records: [][]byte{record("kept")}, Torn: true}, found)
	assert.Less(t, time.Since(start), 5*time.Second)
}

// TestDamageLong damages the end of a journal: more bytes than a unit has are no
// torn unit.
func TestDamageLong(t *testing.T) {
	for more, void := range []bool{false, true} {
		d := newDisk()
		j, _ := reopen(t, d)
		require.NoError(t, j.Append(record("kept")))
		d.put(append(d.names[testName].b, make([]byte, unitHead+maxUnit+more)...))
		_, found := reopen(t, d)
		assert.Equal(t, void, found.Void)
		assert.Equal(t, !void, found.Torn)
	}
}

// TestLeftOver replaces a journal when an earlier Replace, which was longer, was
// killed: nothing of it is left.
func TestLeftOver(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	d.names[testName+nextSuffix] = &memInode{b: make([]byte, 1000)}
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("a")} }))
	assert.Len(t, d.names[testName].b, int(j.Size()))
	_, found := reopen(t, d)
	assert.Equal(t, Found{Records: [][]byte{record("a")}}, found)
}

// TestOpenFails lets each system call of Open fail, for journals that are whole,
// torn and void: no file stays open, and the next Open finds the same.
func TestOpenFails(t *testing.T) {
	whole, _ := sample(t)
	for name, b := range map[string][]byte{"whole": whole, "torn": whole[:len(whole)-1], "void": whole[1:]} {
		d := newDisk()
		d.put(b)
		_, want := reopen(t, d)
		calls := 0
		for failed := true; failed; {
			calls++
			d := newDisk()
			d.put(b)
			d.fails = func(n int) int {
				if n == calls {
					return 3
				}
				return -1
			}
			var err error
			_, _, err = open(d, testName, testText)
			failed = err != nil
			if failed {
				require.ErrorIs(t, err, errDisk)
				assert.Zero(t, d.opened, "%s, call %d", name, calls)
			}
			d.mend()
			_, found := reopen(t, d)
			if name != "void" { // else the damaged file may be gone from its place
				assert.Equal(t, list(want.Records), list(found.Records), "%s, call %d", name, calls)
			} else {
				assert.Empty(t, found.Records)
			}
		}
		assert.Greater(t, calls, 6, name)
	}
}

// TestVoidAgain opens two damaged journals: one damaged file is kept, the last.
func TestVoidAgain(t *testing.T) {
	d := newDisk()
	for _, b := range []string{"first", "second"} {
		d.put([]byte(b))
		_, found := reopen(t, d)
		assert.Equal(t, Found{Void: true}, found)
		assert.Equal(t, b, string(d.names[testName+damagedSuffix].b))
		assert.Len(t, d.names, 2)
	}
}

// TestFull fills a journal: no unit is written behind the longest file, and a
// Replace by less makes room.
func TestFull(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	head := j.Size()
	unit := int64(unitHead + recordHead + 1)
	j.size = maxFile - unit + 1 // as after many Appends
	calls := d.calls
	err := j.Append(record("x"))
	require.ErrorIs(t, err, ErrFull)
	assert.ErrorContains(t, err, "mem/"+testName)
	assert.Equal(t, calls, d.calls)
	next := &Journal{text: testText, size: maxFile - head - unit + 1} // as after many records
	require.ErrorIs(t, next.fill(&memFile{d, &memInode{}}, [][]byte{record("x")}), ErrFull)
	j.size = head
	require.NoError(t, j.Append(record("x")), "nothing was written, so no error is kept")
	j.size = maxFile
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("y")} }))
	require.NoError(t, j.Append(record("z")))
	_, found := reopen(t, d)
	assert.Equal(t, []string{"y", "z"}, list(found.Records))

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, testName), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(dir, testName), maxFile+1))
	_, _, err = Open(dir, testName, testText)
	require.ErrorContains(t, err, "move the file away")
}

// TestInUse opens a journal twice: the second Open fails and changes nothing,
// also after a Replace.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, testName, testText)
	require.NoError(t, err)
	for i := range 2 {
		_, _, err = Open(dir, testName, testText)
		require.ErrorContains(t, err, filepath.Join(dir, testName)+" cannot be opened: another process uses it")
		require.NoError(t, j.Append(record(fmt.Sprint(i))))
		require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("all")} }))
	}
	require.NoError(t, j.Close())
	j, found, err := Open(dir, testName, testText)
	require.NoError(t, err)
	assert.Equal(t, []string{"all"}, list(found.Records))
	require.NoError(t, j.Close())
}

// TestFileLimit lets the host refuse to write: the limit of a file's size cuts
// the write of a unit short. The unit is not found, and Replace makes the journal
// usable again.
func TestFileLimit(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() {
		assert.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
		signal.Reset(unix.SIGXFSZ)
	})
	dir := t.TempDir()
	j, _, err := Open(dir, testName, testText)
	require.NoError(t, err)
	require.NoError(t, j.Append(record("kept")))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(j.Size()) + 1000, Max: old.Max}))
	for _, r := range [][]byte{make([]byte, 2000), record("short")} {
		err = j.Append(r)
		require.ErrorIs(t, err, unix.EFBIG)
		assert.ErrorContains(t, err, filepath.Join(dir, testName))
		assert.ErrorContains(t, err, "check the disk")
	}
	require.ErrorIs(t, j.Replace(func() [][]byte { return [][]byte{make([]byte, 2000)} }), unix.EFBIG)
	assert.NoFileExists(t, filepath.Join(dir, testName+nextSuffix))
	require.NoError(t, j.Close())
	info, err := os.Stat(filepath.Join(dir, testName))
	require.NoError(t, err)
	assert.Equal(t, j.Size()+1000, info.Size(), "the part that was written")

	j, found, err := Open(dir, testName, testText)
	require.NoError(t, err)
	assert.Equal(t, Found{Records: [][]byte{record("kept")}, Torn: true}, found)
	require.Error(t, j.Append(make([]byte, 2000)))
	require.NoError(t, j.Replace(func() [][]byte { return found.Records }))
	require.NoError(t, j.Append(record("short")))
	require.NoError(t, j.Close())
	_, found, err = Open(dir, testName, testText)
	require.NoError(t, err)
	assert.Equal(t, []string{"kept", "short"}, list(found.Records))
}

// TestKilled ends the process after a sync that failed, and whose data Linux has
// dropped although they can still be read. The next process finds the unit, and
// so does a third one after a power failure.
func TestKilled(t *testing.T) {
	d := newDisk()
	d.forgets = true
	j, _ := reopen(t, d)
	calls := d.calls + 2
	d.fails = func(n int) int {
		if n == calls {
			return 0
		}
		return -1
	}
	require.ErrorIs(t, j.Append(record("unknown")), errDisk)
	j, found := reopen(t, d)
	require.Equal(t, []string{"unknown"}, list(found.Records))
	require.NoError(t, j.Append(record("after")))
	_, found = reopen(t, d.crash(rand.New(rand.NewPCG(1, 1))))
	assert.Equal(t, []string{"unknown", "after"}, list(found.Records))
	assert.False(t, found.Void)
}

// TestCloseWaits closes a journal while an Append writes and another one waits:
// the first is stored, and the second is stored or gets an error.
func TestCloseWaits(t *testing.T) {
	for range 20 {
		d := newDisk()
		j, _ := reopen(t, d)
		first, let := make(chan struct{}), make(chan struct{})
		var once sync.Once
		d.syncing = func() { once.Do(func() { close(first); <-let }) }
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, j.Append(record("first"))) })
		<-first
		var second error
		all.Go(func() { second = j.Append(record("second")) })
		all.Go(func() { assert.NoError(t, j.Close()) })
		close(let)
		all.Wait()
		_, found := reopen(t, d)
		want := []string{"first", "second"}
		if second != nil {
			require.ErrorIs(t, second, ErrClosed)
			want = want[:1]
		}
		assert.Equal(t, want, list(found.Records))
	}
}

// TestGroup lets Appends wait for one that writes: they share the next sync.
func TestGroup(t *testing.T) {
	const n = 100
	d := newDisk()
	j, _ := reopen(t, d)
	first, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.syncing = func() { once.Do(func() { close(first); <-let }) }
	before := d.syncs
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, j.Append(record("first"))) })
	<-first
	for i := range n {
		all.Go(func() { assert.NoError(t, j.Append(record(fmt.Sprint(i)), record("pair"))) })
	}
	for waiting := 0; waiting < n; { // their records, in one batch
		j.mu.Lock()
		waiting = 0
		if j.batch != nil {
			records, _ := split(j.batch.body)
			waiting = len(records) / 2
		}
		j.mu.Unlock()
	}
	close(let)
	all.Wait()
	assert.Equal(t, 2, d.syncs-before)
	_, found := reopen(t, d)
	require.Len(t, found.Records, 2*n+1)
	for i, r := range found.Records[1:] {
		assert.Equal(t, i%2 == 1, string(r) == "pair", "record %d", i)
	}
}

// TestFails lets each system call of Open, Append and Replace fail: the records
// of each Append that has succeeded are there, and after an error every Append
// fails until Replace succeeds.
func TestFails(t *testing.T) {
	for call := 1; ; call++ {
		for _, written := range []int{0, 5, 1 << 20} {
			d := newDisk()
			d.fails = func(n int) int {
				if n == call {
					return written
				}
				return -1
			}
			j, _, err := open(d, testName, testText)
			if err != nil {
				assert.Zero(t, d.opened, "call %d", call)
				j, _ = reopen(t, d)
			}
			var stored []string
			add := func(s string) error {
				err := j.Append(record(s))
				if err == nil {
					stored = append(stored, s)
				}
				return err
			}
			if add("one") != nil {
				assert.ErrorContains(t, add("two"), "mem/"+testName+" cannot be written", "call %d", call)
				assert.Empty(t, stored)
			}
			_ = j.Replace(func() [][]byte { return [][]byte{record("kept")} })
			if add("three") != nil {
				require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("kept")} }))
				require.NoError(t, add("three"))
			}
			assert.Equal(t, 1, d.opened, "call %d", call)
			over := d.calls < call
			d.fails = nil
			_, found := reopen(t, d)
			got := list(found.Records)
			if len(got) > 0 && got[0] == "kept" {
				assert.Equal(t, []string{"kept", "three"}, got, "call %d", call)
			} else {
				assert.Equal(t, []string{"one", "three"}, got, "call %d", call)
			}
			assert.NotContains(t, d.names, testName+nextSuffix, "call %d", call)
			if over {
				assert.Greater(t, call, 10)
				return
			}
		}
	}
}

// TestFailsGroup fails a sync for which several Appends wait: all get the error,
// and so do those that come meanwhile.
func TestFailsGroup(t *testing.T) {
	d := newDisk()
	j, _ := reopen(t, d)
	first, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.syncing = func() { once.Do(func() { close(first); <-let }) }
	calls := d.calls + 2 // the write succeeds, its sync does not
	d.fails = func(n int) int {
		if n == calls {
			return 0
		}
		return -1
	}
	var all sync.WaitGroup
	all.Go(func() { assert.ErrorIs(t, j.Append(record("first")), errDisk) })
	<-first
	for range 10 {
		all.Go(func() { assert.ErrorIs(t, j.Append(record("later")), errDisk) })
	}
	close(let)
	all.Wait()
}

// TestCrashes runs random schedules of Append and Replace on a disk whose calls
// fail now and then. The process is killed at some call, or the power fails; the
// next process goes on with the journal that it finds. All that was stored is
// found, in order, and of a call that failed all or nothing.
func TestCrashes(t *testing.T) {
	const lives = 4
	ends := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := newDisk()
		maybe := [][]string{nil} // one of these is found next
		for life := range lives {
			if r.IntN(2) == 0 {
				d = d.crash(r)
				ends["power"]++
			}
			d.forgets = r.IntN(2) == 0
			d.mend()
			last := d.calls + 1 + r.IntN(60)
			d.fails = func(n int) int {
				if n >= last || r.IntN(15) == 0 {
					return r.IntN(40)
				}
				return -1
			}
			if life == lives-1 {
				d.fails = nil // something must be found at last
			}
			j, found, err := open(d, testName, testText)
			if err != nil {
				ends["open"]++
				continue
			}
			require.False(t, found.Void, "seed %d, life %d", seed, life)
			stored := list(found.Records)
			require.True(t, slices.ContainsFunc(maybe, func(s []string) bool { return slices.Equal(s, stored) }),
				"seed %d, life %d: found %q instead of one of %q", seed, life, stored, maybe)
			maybe = [][]string{stored}
			for i := 0; d.calls < last; i++ {
				var records [][]byte
				var next []string
				for k := range 1 + r.IntN(3) {
					s := fmt.Sprint(life, ".", i, ".", k, strings.Repeat("-", r.IntN(20)))
					records, next = append(records, record(s)), append(next, s)
				}
				before, calls := j.err, d.calls
				if r.IntN(4) > 0 {
					next = append(slices.Clone(stored), next...)
					err = j.Append(records...)
				} else {
					before = nil
					err = j.Replace(func() [][]byte { return records })
				}
				switch {
				case err == nil:
					require.NoError(t, before, "seed %d, life %d", seed, life)
					stored, maybe = next, [][]string{next}
				case before == nil:
					maybe = append(maybe, next)
				default:
					require.Equal(t, calls, d.calls, "seed %d, life %d: written behind an unknown end", seed, life)
				}
			}
		}
	}
	assert.Greater(t, ends["power"], 1000)
	assert.Greater(t, ends["open"], 100)
}

// TestManyGoroutines appends and replaces all at once: Replace keeps the records
// given to Append.
func TestManyGoroutines(t *testing.T) {
	j, _, err := Open(t.TempDir(), testName, testText)
	require.NoError(t, err)
	var mu sync.Mutex
	var given [][]byte
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 20 {
				r := record(fmt.Sprint(g, ".", i))
				mu.Lock()
				given = append(given, r)
				mu.Unlock()
				assert.NoError(t, j.Append(r))
				if i%10 == 9 {
					assert.NoError(t, j.Replace(func() [][]byte {
						mu.Lock()
						defer mu.Unlock()
						return slices.Clone(given)
					}))
				}
			}
		})
	}
	all.Wait()
	dir := j.disk
	require.NoError(t, j.Close())
	_, found := reopen(t, dir)
	got := map[string]bool{}
	for _, r := range found.Records {
		got[string(r)] = true
	}
	assert.Len(t, got, 160)
}

// FuzzRead reads any bytes behind a header: units that were found are units, and
// a journal goes on behind them.
func FuzzRead(f *testing.F) {
	whole, _ := sample(f)
	head := len(testText) + 26
	var s salt
	f.Add(s.appendUnit(nil, appendRecord(appendRecord(nil, record("a")), nil)))
	f.Add(append(s.appendUnit(nil, appendRecord(nil, record("a"))), whole[head:]...))
	f.Add(append([]byte{0, 0, 0, 9}, s.appendUnit(nil, appendRecord(nil, record("b")))...))
	two := s.appendUnit(s.appendUnit(nil, appendRecord(nil, record("a"))), appendRecord(nil, record("b")))
	f.Add(two[:len(two)-1])
	f.Add(append(slices.Clone(two[:12]), two[13:]...))
	f.Add(s.appendUnit(nil, []byte{0, 0, 0, 5, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, _, end, void := s.read(b)
		if void {
			return
		}
		again := []byte{}
		for at := 0; at < end; {
			body, ok := s.unit(b[at:])
			require.True(t, ok)
			again = s.appendUnit(again, body)
			at += unitHead + len(body)
		}
		require.Equal(t, b[:end], again)
		d := newDisk()
		j := &Journal{text: testText}
		d.put(append([]byte(j.header()), b...))
		opened, found := reopen(t, d)
		require.Equal(t, list(records), list(found.Records))
		require.Equal(t, end < len(b), found.Torn)
		require.NoError(t, opened.Append(record("after")))
		_, found = reopen(t, d)
		require.Equal(t, append(list(records), "after"), list(found.Records))
	})
}
