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

// reopenJournal opens a disk's journal.
func reopenJournal(t testing.TB, d disk) (*Journal, Found) {
	t.Helper()
	j, found, err := openJournal(d, testName, testText)
	require.NoError(t, err)
	return j, found
}

// appendAfter appends a record, if necessary after a replacement.
func appendAfter(t testing.TB, j *Journal, found Found) {
	t.Helper()
	if found.Void {
		require.ErrorIs(t, j.Append(newRecord("early")), errVoid)
		require.NoError(t, j.Replace(func() [][]byte { return nil }))
	}
	require.NoError(t, j.Append(newRecord("after")))
}

func recordStrings(records [][]byte) (all []string) {
	for _, r := range records {
		all = append(all, string(r))
	}
	return all
}

func newRecord(s string) []byte { return []byte(s) }

// TestHost uses host files: records come back in their order, over Appends and Replace, and an
// empty record is one too.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Journal, Found) {
		j, found, err := Open(dir, testName, testText, nil)
		require.NoError(t, err)
		return j, found
	}
	j, found := open()
	assert.Equal(t, Found{}, found)
	require.NoError(t, j.Append(newRecord("a"), nil, newRecord("b")))
	require.NoError(t, j.Append())
	require.NoError(t, j.Append(newRecord("c")))
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	assert.ErrorIs(t, j.Append(newRecord("late")), ErrClosed)
	assert.ErrorIs(t, j.Replace(func() [][]byte { return nil }), ErrClosed)

	j, found = open()
	assert.Equal(t, []string{"a", "", "b", "c"}, recordStrings(found.Records))
	before := j.Size()
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{newRecord("d")} }))
	assert.Less(t, j.Size(), before)
	require.NoError(t, j.Append(newRecord("e")))
	info, err := os.Stat(filepath.Join(dir, testName))
	require.NoError(t, err)
	assert.Equal(t, j.Size(), info.Size())
	assert.EqualValues(t, 0o600, info.Mode())
	require.NoError(t, j.Close())

	j, found = open()
	assert.Equal(t, []string{"d", "e"}, recordStrings(found.Records))
	require.NoError(t, j.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "files besides the journal")

	_, _, err = Open(filepath.Join(dir, "missing"), testName, testText, nil)
	assert.ErrorContains(t, err, "missing/"+testName)
}

// TestLong stores records with the maximum length, in their own units and with others, and
// rejects longer ones.
func TestLong(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	longest := make([]byte, MaxRecord)
	assert.ErrorIs(t, j.Append(append(longest, 0)), ErrTooLong)
	var many [][]byte
	for range maxBodyLen / (recordHeadLen + MaxRecord) {
		many = append(many, longest)
	}
	require.NoError(t, j.Append(many...))
	assert.ErrorIs(t, j.Append(append(many, longest)...), ErrTooLong)
	assert.ErrorIs(t, j.Replace(func() [][]byte { return [][]byte{append(longest, 0)} }), ErrTooLong)
	require.NoError(t, j.Append(longest))
	_, found := reopenJournal(t, d)
	assert.Len(t, found.Records, len(many)+1)
	all := append(slices.Repeat(many, 3), newRecord("end"))
	require.NoError(t, j.Replace(func() [][]byte { return all }))
	_, found = reopenJournal(t, d)
	assert.Equal(t, all, found.Records)
}

// sampleJournal returns a journal's bytes, and the ends of its units with the number of records
// up to each.
func sampleJournal(t testing.TB) (b []byte, ends map[int]int) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	ends = map[int]int{int(j.Size()): 0}
	for i := range 4 {
		require.NoError(t, j.Append(newRecord(strings.Repeat("x", 3*i)), newRecord("second")))
		ends[int(j.Size())] = 2 * (i + 1)
	}
	return d.names[testName].b, ends
}

// TestCut cuts a journal at each byte: the whole units are there, and the rest
// gives way to new ones.
func TestCut(t *testing.T) {
	whole, ends := sampleJournal(t)
	head := len(testText) + 1 + 16 + 8 + 1
	var all []string
	for i := range 4 {
		all = append(all, strings.Repeat("x", 3*i), "second")
	}
	for n := range len(whole) + 1 {
		d := newMemDisk()
		d.setContent(whole[:n])
		j, found := reopenJournal(t, d)
		records := 0
		for end, count := range ends {
			if end <= n {
				records = max(records, count)
			}
		}
		_, exact := ends[n]
		assert.Equal(t, all[:records], append([]string{}, recordStrings(found.Records)...), "%d bytes", n)
		assert.Equal(t, n < head, found.Void, "%d bytes", n)
		assert.Equal(t, n >= head && !exact, found.Torn, "%d bytes", n)
		appendAfter(t, j, found)
		_, again := reopenJournal(t, d)
		assert.Equal(t, append(recordStrings(found.Records), "after"), recordStrings(again.Records), "%d bytes", n)
		assert.False(t, again.Torn, "%d bytes", n)
	}
}

// TestDamage changes each byte in a journal: no wrong record is found, and only damage in the
// last unit passes for a torn Append.
func TestDamage(t *testing.T) {
	whole, ends := sampleJournal(t)
	last := 0 // all units but the last
	for end := range ends {
		if end < len(whole) {
			last = max(last, end)
		}
	}
	d := newMemDisk()
	d.setContent(whole)
	_, all := reopenJournal(t, d)
	for at := range whole {
		for flip := 1; flip < 256; flip++ {
			d := newMemDisk()
			b := slices.Clone(whole)
			b[at] ^= byte(flip)
			d.setContent(b)
			j, found := reopenJournal(t, d)
			if at < last {
				assert.True(t, found.Void, "byte %d", at)
				assert.Empty(t, found.Records, "byte %d", at)
				assert.Equal(t, b, d.names[testName+damagedSuffix].b)
			} else {
				assert.True(t, found.Torn, "byte %d", at)
				assert.Equal(t, recordStrings(all.Records[:6]), recordStrings(found.Records), "byte %d", at)
			}
			appendAfter(t, j, found)
		}
	}
}

// TestEmbedded stores a record with a unit's bytes. When that Append is torn, the unit within
// does not pass for a readable one.
func TestEmbedded(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	var guess salt
	require.NoError(t, j.Append(guess.appendUnit(nil, appendRecord(nil, newRecord("forged"))), newRecord("rest")))
	inode := d.names[testName]
	inode.b = inode.b[:len(inode.b)-1]
	_, found := reopenJournal(t, d)
	assert.Equal(t, Found{Torn: true}, found)
}

// TestTornLong tears the longest unit, whose records imitate unit heads everywhere. It is torn
// and not void, and the search for a unit in it is short.
func TestTornLong(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	require.NoError(t, j.Append(newRecord("kept")))
	hostile := []byte(strings.Repeat("\x00\x0e", MaxRecord/2))
	require.NoError(t, j.Append(slices.Repeat([][]byte{hostile}, maxBodyLen/(recordHeadLen+MaxRecord))...))
	d.setContent(d.names[testName].b[:j.Size()-1])
	start := time.Now()
	_, found := reopenJournal(t, d)
	assert.Equal(t, Found{Records: [][]byte{newRecord("kept")}, Torn: true}, found)
	assert.Less(t, time.Since(start), 5*time.Second)
}

// TestDamageLong damages a journal's end: more bytes than a unit has are not a torn unit.
func TestDamageLong(t *testing.T) {
	for more, void := range []bool{false, true} {
		d := newMemDisk()
		j, _ := reopenJournal(t, d)
		require.NoError(t, j.Append(newRecord("kept")))
		d.setContent(append(d.names[testName].b, make([]byte, unitHeadLen+maxBodyLen+more)...))
		_, found := reopenJournal(t, d)
		assert.Equal(t, void, found.Void)
		assert.Equal(t, !void, found.Torn)
	}
}

// TestLeftOver replaces a journal when an earlier Replace, which was longer, was killed:
// nothing remains from it.
func TestLeftOver(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	d.names[testName+nextSuffix] = &memInode{b: make([]byte, 1000)}
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{newRecord("a")} }))
	assert.Len(t, d.names[testName].b, int(j.Size()))
	_, found := reopenJournal(t, d)
	assert.Equal(t, Found{Records: [][]byte{newRecord("a")}}, found)
}

// TestOpenFails lets each system call in Open fail, for journals that are whole, torn and void:
// no file stays open, and the next Open finds the same.
func TestOpenFails(t *testing.T) {
	whole, _ := sampleJournal(t)
	for name, b := range map[string][]byte{"whole": whole, "torn": whole[:len(whole)-1], "void": whole[1:]} {
		d := newMemDisk()
		d.setContent(b)
		_, want := reopenJournal(t, d)
		calls := 0
		for failed := true; failed; {
			calls++
			d := newMemDisk()
			d.setContent(b)
			d.failAfter = func(n int) int {
				if n == calls {
					return 3
				}
				return -1
			}
			var err error
			_, _, err = openJournal(d, testName, testText)
			failed = err != nil
			if failed {
				require.ErrorIs(t, err, errDisk)
				assert.Zero(t, d.opened, "%s, call %d", name, calls)
			}
			d.endFailures()
			_, found := reopenJournal(t, d)
			assert.Equal(t, want.Void, found.Void, "%s, call %d", name, calls)
			assert.Equal(t, recordStrings(want.Records), recordStrings(found.Records), "%s, call %d", name, calls)
		}
		assert.Greater(t, calls, 4, name)
	}
}

// TestVoidAgain opens two damaged journals: one damaged file is kept, the last. Until it has been
// replaced, whatever system call of that fails, each Open finds that the journal is void.
func TestVoidAgain(t *testing.T) {
	d := newMemDisk()
	for _, b := range []string{"first", "second"} {
		d.setContent([]byte(b))
		replaced := false
		for calls := 1; !replaced; calls++ {
			d.endFailures()
			j, found := reopenJournal(t, d)
			assert.Equal(t, Found{Void: true}, found)
			assert.Equal(t, b, string(d.names[testName+damagedSuffix].b))
			assert.Len(t, d.names, 2)
			first := d.calls
			d.failAfter = func(n int) int {
				if n == first+calls {
					return 0
				}
				return -1
			}
			replaced = j.Replace(func() [][]byte { return [][]byte{newRecord("new")} }) == nil
			if string(d.names[testName].b) != b { // only the names' sync has failed
				break
			}
		}
		d.endFailures()
		_, found := reopenJournal(t, d)
		assert.Equal(t, Found{Records: [][]byte{newRecord("new")}}, found)
	}
}

// TestFull fills a journal: no unit is written behind the longest file, and a
// Replace with less data frees space.
func TestFull(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	head := j.Size()
	unit := int64(unitHeadLen + recordHeadLen + 1)
	j.size = maxFileLen - unit + 1 // as after many Appends
	calls := d.calls
	err := j.Append(newRecord("x"))
	require.ErrorIs(t, err, ErrFull)
	assert.ErrorContains(t, err, "mem/"+testName)
	assert.Equal(t, calls, d.calls)
	next := &Journal{headerText: testText, size: maxFileLen - head - unit + 1} // as after many records
	require.ErrorIs(t, next.writeRecords(&memFile{d, &memInode{}}, [][]byte{newRecord("x")}), ErrFull)
	j.size = head
	require.NoError(t, j.Append(newRecord("x")), "nothing was written, so no error is kept")
	j.size = maxFileLen
	require.NoError(t, j.Replace(func() [][]byte { return [][]byte{newRecord("y")} }))
	require.NoError(t, j.Append(newRecord("z")))
	_, found := reopenJournal(t, d)
	assert.Equal(t, []string{"y", "z"}, recordStrings(found.Records))

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, testName), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(dir, testName), maxFileLen+1))
	_, _, err = Open(dir, testName, testText, nil)
	require.ErrorContains(t, err, "move the file away")
}

// TestInUse opens a journal twice: the second Open fails and changes nothing,
// also after a Replace.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, testName, testText, nil)
	require.NoError(t, err)
	for i := range 2 {
		_, _, err = Open(dir, testName, testText, nil)
		require.ErrorContains(t, err, filepath.Join(dir, testName)+" cannot be opened: another process uses it")
		require.NoError(t, j.Append(newRecord(fmt.Sprint(i))))
		require.NoError(t, j.Replace(func() [][]byte { return [][]byte{newRecord("all")} }))
	}
	require.NoError(t, j.Close())
	j, found, err := Open(dir, testName, testText, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"all"}, recordStrings(found.Records))
	require.NoError(t, j.Close())
}

// TestFileLimit lets the host fail a write: the file size limit truncates a unit's write. The
// unit is not found, and Replace makes the journal usable again.
func TestFileLimit(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() {
		assert.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
		signal.Reset(unix.SIGXFSZ)
	})
	dir := t.TempDir()
	j, _, err := Open(dir, testName, testText, nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(newRecord("kept")))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(j.Size()) + 1000, Max: old.Max}))
	for _, r := range [][]byte{make([]byte, 2000), newRecord("short")} {
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

	j, found, err := Open(dir, testName, testText, nil)
	require.NoError(t, err)
	assert.Equal(t, Found{Records: [][]byte{newRecord("kept")}, Torn: true}, found)
	require.Error(t, j.Append(make([]byte, 2000)))
	require.NoError(t, j.Replace(func() [][]byte { return found.Records }))
	require.NoError(t, j.Append(newRecord("short")))
	require.NoError(t, j.Close())
	_, found, err = Open(dir, testName, testText, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"kept", "short"}, recordStrings(found.Records))
}

// TestKilled kills the process after a failed sync, whose data Linux has dropped from
// its write-back queue although they can still be read. The next process must find the
// unit, and store it, so that a third one finds it after a power failure.
func TestKilled(t *testing.T) {
	d := newMemDisk()
	d.dropsUnsynced = true
	j, _ := reopenJournal(t, d)
	calls := d.calls + 2
	d.failAfter = func(n int) int {
		if n == calls {
			return 0
		}
		return -1
	}
	require.ErrorIs(t, j.Append(newRecord("unknown")), errDisk)
	j, found := reopenJournal(t, d)
	require.Equal(t, []string{"unknown"}, recordStrings(found.Records))
	require.NoError(t, j.Append(newRecord("after")))
	_, found = reopenJournal(t, d.afterPowerFailure(rand.New(rand.NewPCG(1, 1))))
	assert.Equal(t, []string{"unknown", "after"}, recordStrings(found.Records))
	assert.False(t, found.Void)
}

// TestCloseWaits closes a journal while an Append writes and another one waits:
// the first is stored, and the second is stored or gets an error.
func TestCloseWaits(t *testing.T) {
	for range 20 {
		d := newMemDisk()
		j, _ := reopenJournal(t, d)
		first, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		d.onSync = func() { once.Do(func() { close(first); <-release }) }
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, j.Append(newRecord("first"))) })
		<-first
		var second error
		all.Go(func() { second = j.Append(newRecord("second")) })
		all.Go(func() { assert.NoError(t, j.Close()) })
		close(release)
		all.Wait()
		_, found := reopenJournal(t, d)
		want := []string{"first", "second"}
		if second != nil {
			require.ErrorIs(t, second, ErrClosed)
			want = want[:1]
		}
		assert.Equal(t, want, recordStrings(found.Records))
	}
}

// TestGroup lets Appends wait for one that writes: they share the next sync.
func TestGroup(t *testing.T) {
	const n = 100
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	first, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync = func() { once.Do(func() { close(first); <-let }) }
	before := d.syncs
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, j.Append(newRecord("first"))) })
	<-first
	for i := range n {
		all.Go(func() { assert.NoError(t, j.Append(newRecord(fmt.Sprint(i)), newRecord("pair"))) })
	}
	for waiting := 0; waiting < n; { // their records, in one batch
		j.mu.Lock()
		waiting = 0
		if j.batch != nil {
			records, _ := splitRecords(j.batch.body)
			waiting = len(records) / 2
		}
		j.mu.Unlock()
	}
	close(let)
	all.Wait()
	assert.Equal(t, 2, d.syncs-before)
	_, found := reopenJournal(t, d)
	require.Len(t, found.Records, 2*n+1)
	for i, r := range found.Records[1:] {
		assert.Equal(t, i%2 == 1, string(r) == "pair", "record %d", i)
	}
}

// TestFails lets each system call in Open, Append and Replace fail: the records from each
// Append that has succeeded are there, and after an error every Append fails until Replace
// succeeds.
func TestFails(t *testing.T) {
	for call := 1; ; call++ {
		for _, written := range []int{0, 5, 1 << 20} {
			d := newMemDisk()
			d.failAfter = func(n int) int {
				if n == call {
					return written
				}
				return -1
			}
			j, _, err := openJournal(d, testName, testText)
			if err != nil {
				assert.Zero(t, d.opened, "call %d", call)
				j, _ = reopenJournal(t, d)
			}
			var stored []string
			add := func(s string) error {
				err := j.Append(newRecord(s))
				if err == nil {
					stored = append(stored, s)
				}
				return err
			}
			if add("one") != nil {
				assert.ErrorContains(t, add("two"), "mem/"+testName+" cannot be written", "call %d", call)
				assert.Empty(t, stored)
			}
			_ = j.Replace(func() [][]byte { return [][]byte{newRecord("kept")} })
			if add("three") != nil {
				require.NoError(t, j.Replace(func() [][]byte { return [][]byte{newRecord("kept")} }))
				require.NoError(t, add("three"))
			}
			assert.Equal(t, 1, d.opened, "call %d", call)
			over := d.calls < call
			d.failAfter = nil
			_, found := reopenJournal(t, d)
			got := recordStrings(found.Records)
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

// TestFailsGroup fails a sync for which several Appends wait: all get the error, and so do
// those that arrive in the meantime.
func TestFailsGroup(t *testing.T) {
	d := newMemDisk()
	j, _ := reopenJournal(t, d)
	first, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync = func() { once.Do(func() { close(first); <-let }) }
	calls := d.calls + 2 // the write succeeds, its sync does not
	d.failAfter = func(n int) int {
		if n == calls {
			return 0
		}
		return -1
	}
	var all sync.WaitGroup
	all.Go(func() { assert.ErrorIs(t, j.Append(newRecord("first")), errDisk) })
	<-first
	for range 10 {
		all.Go(func() { assert.ErrorIs(t, j.Append(newRecord("later")), errDisk) })
	}
	close(let)
	all.Wait()
}

// TestCrashes runs random schedules of Append and Replace on a disk whose calls fail
// occasionally. The process is killed at some call, or the power fails; the next process
// continues with the journal that it finds. It finds everything that was stored, in order, and
// from a call that failed all or nothing.
func TestCrashes(t *testing.T) {
	const lives = 4
	ends := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := newMemDisk()
		maybe := [][]string{nil} // one of these is found next
		for life := range lives {
			if r.IntN(2) == 0 {
				d = d.afterPowerFailure(r)
				ends["power"]++
			}
			d.dropsUnsynced = r.IntN(2) == 0
			d.endFailures()
			last := d.calls + 1 + r.IntN(60)
			d.failAfter = func(n int) int {
				if n >= last || r.IntN(15) == 0 {
					return r.IntN(40)
				}
				return -1
			}
			if life == lives-1 {
				d.failAfter = nil // something must be found at last
			}
			j, found, err := openJournal(d, testName, testText)
			if err != nil {
				ends["open"]++
				continue
			}
			require.False(t, found.Void, "seed %d, life %d", seed, life)
			stored := recordStrings(found.Records)
			require.True(t, slices.ContainsFunc(maybe, func(s []string) bool { return slices.Equal(s, stored) }),
				"seed %d, life %d: found %q instead of one of %q", seed, life, stored, maybe)
			maybe = [][]string{stored}
			for i := 0; d.calls < last; i++ {
				var records [][]byte
				var next []string
				for k := range 1 + r.IntN(3) {
					s := fmt.Sprint(life, ".", i, ".", k, strings.Repeat("-", r.IntN(20)))
					records, next = append(records, newRecord(s)), append(next, s)
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
	j, _, err := Open(t.TempDir(), testName, testText, nil)
	require.NoError(t, err)
	var mu sync.Mutex
	var given [][]byte
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 20 {
				r := newRecord(fmt.Sprint(g, ".", i))
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
	_, found := reopenJournal(t, dir)
	got := map[string]bool{}
	for _, r := range found.Records {
		got[string(r)] = true
	}
	assert.Len(t, got, 160)
}

// FuzzRead reads any bytes after a header: units that were found are units, and
// a journal continues after them.
func FuzzRead(f *testing.F) {
	whole, _ := sampleJournal(f)
	head := len(testText) + 26
	var s salt
	f.Add(s.appendUnit(nil, appendRecord(appendRecord(nil, newRecord("a")), nil)))
	f.Add(append(s.appendUnit(nil, appendRecord(nil, newRecord("a"))), whole[head:]...))
	f.Add(append([]byte{0, 0, 0, 9}, s.appendUnit(nil, appendRecord(nil, newRecord("b")))...))
	two := s.appendUnit(s.appendUnit(nil, appendRecord(nil, newRecord("a"))), appendRecord(nil, newRecord("b")))
	f.Add(two[:len(two)-1])
	f.Add(append(slices.Clone(two[:12]), two[13:]...))
	f.Add(s.appendUnit(nil, []byte{0, 0, 0, 5, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, _, end, void := s.readUnits(b)
		if void {
			return
		}
		again := []byte{}
		for at := 0; at < end; {
			body, ok := s.readUnit(b[at:])
			require.True(t, ok)
			again = s.appendUnit(again, body)
			at += unitHeadLen + len(body)
		}
		require.Equal(t, b[:end], again)
		d := newMemDisk()
		j := &Journal{headerText: testText}
		d.setContent(append([]byte(j.headerLine()), b...))
		opened, found := reopenJournal(t, d)
		require.Equal(t, recordStrings(records), recordStrings(found.Records))
		require.Equal(t, end < len(b), found.Torn)
		require.NoError(t, opened.Append(newRecord("after")))
		_, found = reopenJournal(t, d)
		require.Equal(t, append(recordStrings(records), "after"), recordStrings(found.Records))
	})
}

// TestFullDisk checks that Appends continue for a while when the disk has become full, also those
// to a journal that was opened, and after a Replace that has failed.
func TestFullDisk(t *testing.T) {
	record := make([]byte, 1000)
	for name, again := range map[string]bool{"a new journal": false, "one that was there": true} {
		t.Run(name, func(t *testing.T) {
			d := newMemDisk()
			j, _, err := openJournal(d, testName, "header")
			require.NoError(t, err)
			for range 2 * allocationStep / len(record) { // far beyond what was allocated first
				require.NoError(t, j.Append(record))
			}
			if again {
				require.NoError(t, j.Close())
				j, _, err = openJournal(d, testName, "header")
				require.NoError(t, err)
			}
			d.full = true
			size, n := j.Size(), 0
			for ; n < allocationStep/2/len(record)-20; n++ { // 12 bytes more for each
				require.NoError(t, j.Append(record))
			}
			assert.Error(t, j.Replace(func() [][]byte { return [][]byte{record} }))
			require.NoError(t, j.Append(record))
			assert.Greater(t, j.Size(), size+int64(n*len(record)))
			for err = nil; err == nil && n < 2*allocationStep/len(record); n++ {
				err = j.Append(record)
			}
			assert.Error(t, err, "the space is limited")
			d.full = false
			require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record} }))
			require.NoError(t, j.Append(record))
			require.NoError(t, j.Close())
		})
	}
}

// TestReserveOnSlowDisk checks that a disk which takes long to allocate space holds up nothing but
// the Append.
func TestReserveOnSlowDisk(t *testing.T) {
	d := newMemDisk()
	j, _, err := openJournal(d, testName, "header")
	require.NoError(t, err)
	entered, leave := make(chan struct{}), make(chan struct{})
	d.reserve = func() error { entered <- struct{}{}; <-leave; return nil }
	j.allocatedEnd = 0
	appended := make(chan error, 1)
	go func() { appended <- j.Append([]byte("record")) }()
	<-entered
	size := make(chan int64, 1)
	go func() { size <- j.Size() }()
	select {
	case <-size:
	case <-time.After(10 * time.Second):
		t.Error("Size waits for the disk")
	}
	close(leave)
	require.NoError(t, <-appended)
	require.NoError(t, j.Close())
}

// TestReserveUnsupported checks that a file system that cannot allocate ahead is called once.
func TestReserveUnsupported(t *testing.T) {
	d, asked := newMemDisk(), 0
	d.reserve = func() error { asked++; return unix.EOPNOTSUPP }
	j, _, err := openJournal(d, testName, "header")
	require.NoError(t, err)
	for range 10 {
		require.NoError(t, j.Append([]byte("record")))
	}
	assert.Equal(t, 1, asked)
	require.NoError(t, j.Replace(func() [][]byte { return nil }))
	require.NoError(t, j.Append([]byte("record")))
	assert.Equal(t, 2, asked)
	require.NoError(t, j.Close())
}

// TestReserved checks that a host file has blocks after its end.
func TestReserved(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "journal")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	for range 2 {
		j, _, err := Open(dir, "j", "header", nil)
		require.NoError(t, err)
		require.NoError(t, j.Append([]byte("record")))
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, "j"), &st))
		assert.GreaterOrEqual(t, st.Blocks*512, int64(allocationStep))
		assert.Equal(t, j.Size(), st.Size)
		require.NoError(t, j.Close())
	}
}
