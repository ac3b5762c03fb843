package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	for n := range whole {
		d := newDisk()
		d.names[testName] = &memInode{b: slices.Clone(whole[:n])}
		j, found := reopen(t, d)
		records := 0
		for end, count := range ends {
			if end <= n {
				records = max(records, count)
			}
		}
		_, exact := ends[n]
		assert.Len(t, found.Records, records, "%d bytes", n)
		assert.Equal(t, n < head, found.Void, "%d bytes", n)
		assert.Equal(t, n >= head && !exact, found.Torn, "%d bytes", n)
		require.NoError(t, j.Append(record("after")))
		_, again := reopen(t, d)
		assert.Equal(t, append(list(found.Records), "after"), list(again.Records), "%d bytes", n)
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
	_, all := func() (*Journal, Found) {
		d := newDisk()
		d.names[testName] = &memInode{b: whole}
		return reopen(t, d)
	}()
	for at := range whole {
		for _, flip := range []byte{1, 0x80, 0xff} {
			d := newDisk()
			b := slices.Clone(whole)
			b[at] ^= flip
			d.names[testName] = &memInode{b: b}
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

// TestSearchEnds checks that the search for units in damaged data is bounded,
// and takes the journal for void then.
func TestSearchEnds(t *testing.T) {
	var s salt
	b := make([]byte, 4<<20)
	for i := range b { // lengths everywhere
		b[i] = byte(i%2) * 0x0f
	}
	_, _, void := s.read(b)
	assert.True(t, void)
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

// TestFails lets each system call of Open, Append and Replace fail: what an
// Append has said to be stored is there, and after an error every Append fails
// until Replace succeeds.
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
				assert.ErrorContains(t, add("two"), testName, "call %d", call)
				assert.Empty(t, stored)
			}
			_ = j.Replace(func() [][]byte { return [][]byte{record("kept")} })
			if add("three") != nil {
				require.NoError(t, j.Replace(func() [][]byte { return [][]byte{record("kept")} }))
				require.NoError(t, add("three"))
			}
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

// TestCrashes runs random schedules of Append and Replace, and a power failure
// at some system call. All that was stored is found, in order, and of the last
// call all or nothing.
func TestCrashes(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := newDisk()
		at := 1 + r.IntN(60)
		d.fails = func(n int) int {
			if n >= at {
				return r.IntN(40)
			}
			return -1
		}
		var stored, maybe []string // maybe: if the last call has come to its end
		j, _, err := open(d, testName, testText)
		for i := 0; err == nil; i++ {
			maybe = slices.Clone(stored)
			var records [][]byte
			for k := range 1 + r.IntN(3) {
				s := fmt.Sprint(i, ".", k, strings.Repeat("-", r.IntN(20)))
				records, maybe = append(records, record(s)), append(maybe, s)
			}
			if r.IntN(4) > 0 {
				err = j.Append(records...)
			} else {
				maybe = maybe[len(stored):]
				err = j.Replace(func() [][]byte { return records })
			}
			if err == nil {
				stored = maybe
			}
		}
		_, found := reopen(t, d.crash(r))
		if got := list(found.Records); !slices.Equal(got, stored) {
			require.Equal(t, maybe, got, "seed %d", seed)
		}
		require.False(t, found.Void, "seed %d", seed)
	}
}

// TestManyGoroutines appends and replaces all at once: Replace keeps what was
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
	f.Add(s.appendUnit(nil, []byte{0, 0, 0, 5, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, end, void := s.read(b)
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
		d.names[testName] = &memInode{b: append([]byte(j.header()), b...)}
		opened, found := reopen(t, d)
		require.Equal(t, list(records), list(found.Records))
		require.Equal(t, end < len(b), found.Torn)
		require.NoError(t, opened.Append(record("after")))
		_, found = reopen(t, d)
		require.Equal(t, append(list(records), "after"), list(found.Records))
	})
}
