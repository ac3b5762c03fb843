package recall

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A fakeSet is a HolderSet with one object that has a holder until it is returned.
type fakeSet struct {
	table *Table
	key   string

	mu      sync.Mutex
	held    bool
	waiting []*Change
	by      []Changer
	ended   []bool // isPostponed of each EndChange
	recalls int    // of all
}

func newFakeSet(table *Table, key string) *fakeSet {
	s := &fakeSet{table: table, key: key, held: true}
	table.AddSet(s)
	table.AddObject([]byte(key))
	return s
}

func (s *fakeSet) BeginChange(ch *Change, by Changer, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = append(s.by, by)
	if !s.held || string(key) != s.key {
		return true
	}
	s.waiting = append(s.waiting, ch)
	return false
}

func (s *fakeSet) Waits(ch *Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.waiting, ch)
}

func (s *fakeSet) Holds(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held && string(key) == s.key
}

func (s *fakeSet) EndChange(ch *Change, isPostponed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *Change) bool { return other == ch })
	s.ended = append(s.ended, isPostponed)
}

func (s *fakeSet) RecallAll() { s.recalls++ }

func (s *fakeSet) returnObject() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.table.RemoveObject([]byte(s.key))
	for _, ch := range s.waiting {
		ch.Wake()
	}
	s.waiting = nil
}

// TestSet checks that a change waits for holders in the Table and in the HolderSet at the same
// time, in one place and with one limit, and that the set is told how it ends.
func TestSet(t *testing.T) {
	for name, tt := range map[string]struct {
		table, set time.Duration // when each of the two holders returns the object
		end        time.Duration
		err        error
	}{
		"the set is last":        {100 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond, nil},
		"the set is first":       {300 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, nil},
		"the set is late":        {MaxWait / 2, time.Hour, MaxWait, ErrTryLater},
		"the Table is late":      {time.Hour, MaxWait / 2, MaxWait, ErrTryLater},
		"both are just in time":  {MaxWait - 1, MaxWait - 1, MaxWait - 1, nil},
		"both are late together": {MaxWait * 3 / 4, MaxWait * 5 / 4, MaxWait, ErrTryLater},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := newTable()
				s := newFakeSet(table, "x")
				h, _ := holdObject(t, table, 1, false, "x")
				start, by := time.Now(), Changer{Client: 2, Conn: "connection"}
				time.AfterFunc(tt.table, h.Return)
				time.AfterFunc(tt.set, s.returnObject)
				var ch Change
				require.False(t, table.NothingHeld(&ch))
				require.False(t, table.Begin(&ch, by, []byte("x")))
				assert.ErrorIs(t, table.Wait(t.Context(), &ch, fairshare.Name{}), tt.err)
				assert.Equal(t, tt.end, time.Since(start))
				assert.Zero(t, table.places.Taken())
				if tt.err == nil {
					assert.True(t, table.Begin(&ch, by, []byte("x")))
					table.Done(&ch)
				}
				assert.Equal(t, by, s.by[0])
				assert.Equal(t, []bool{tt.err != nil}, s.ended)
				table.Done(&ch)
				assert.Len(t, s.ended, 1)
				time.Sleep(2 * time.Hour)
				assert.Zero(t, table.total.n.Load())
			})
		})
	}
}

// TestOneLimit checks that all waits of a change together have one limit, whichever of its objects
// is in the HolderSet, and that the change has a new limit when it is tried again.
func TestOneLimit(t *testing.T) {
	for _, inSet := range []string{"first", "last"} {
		t.Run(inSet+" in the set", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := newTable()
				other := map[string]string{"first": "last", "last": "first"}[inSet]
				h, _ := holdObject(t, table, 1, false, other)
				returns := map[string]func(){inSet: newFakeSet(table, inSet).returnObject, other: h.Return}
				var ch Change
				begin := func(key string) bool { return table.Begin(&ch, Changer{}, []byte(key)) }
				wait := func() error { return table.Wait(t.Context(), &ch, fairshare.Name{}) }

				start := time.Now()
				time.AfterFunc(MaxWait*3/4, returns["first"])
				require.False(t, begin("first"))
				require.NoError(t, wait())
				require.True(t, begin("first"))
				require.False(t, begin("last"))
				assert.ErrorIs(t, wait(), ErrTryLater)
				assert.Equal(t, MaxWait, time.Since(start))

				time.AfterFunc(MaxWait*3/4, returns["last"])
				require.True(t, begin("first"))
				require.False(t, begin("last"))
				assert.NoError(t, wait())
				assert.Equal(t, MaxWait*7/4, time.Since(start))
				table.Done(&ch)
				assert.Zero(t, table.total.n.Load())
			})
		})
	}
}

// TestSetPlaces checks that a change that finds no place to wait in is postponed in the HolderSet
// too.
func TestSetPlaces(t *testing.T) {
	table := newTable()
	s := newFakeSet(table, "x")
	for table.places.Take(fairshare.Name{}) {
	}
	var ch Change
	require.False(t, table.Begin(&ch, Changer{}, []byte("x")))
	assert.ErrorIs(t, table.Wait(t.Context(), &ch, fairshare.Name{}), ErrTryLater)
	assert.Equal(t, []bool{true}, s.ended)
}

// TestSetBusy checks that the HolderSet sees a change that began before its object was added, and
// that an object in the set is neither changed by BeginFree nor held by a Writer, but may be held
// by others.
func TestSetBusy(t *testing.T) {
	table := newTable()
	s := newFakeSet(table, "held")
	key := func(name string) []byte { return []byte(name) }
	var ch Change
	require.True(t, table.Begin(&ch, Changer{}, key("x")))
	table.AddObject(key("x"))
	assert.True(t, table.IsBusy(key("x")))
	table.Done(&ch)
	assert.False(t, table.IsBusy(key("x")))
	table.RemoveObject(key("x"))

	assert.False(t, table.BeginFree(&ch, 0, key("held")))
	assert.True(t, table.BeginFree(&ch, 0, key("x")))
	table.Done(&ch)
	assert.False(t, table.IsBusy(key("held")))

	writer := func() *Holder { return &Holder{Writer: "writer", Recall: func() {}} }
	assert.False(t, table.Hold(writer(), key("held")))
	h := writer()
	require.True(t, table.Hold(h, key("x")))
	assert.True(t, table.IsBusy(key("x")), "perhaps it has looked into the set already")
	require.True(t, h.Confirm())
	assert.False(t, table.IsBusy(key("x")), "BeginRead recalls it")
	h.Return()
	reader, recalls := holdObject(t, table, 1, false, "held")
	table.RecallAll()
	assert.EqualValues(t, 1, recalls.Load())
	assert.Equal(t, 1, s.recalls)
	table.RecallHolders()
	assert.Equal(t, 1, s.recalls, "the set drains itself")
	reader.Return()
	s.returnObject()

	require.True(t, table.NothingHeld(&ch))
	table.AddObject(key("x"))
	assert.True(t, table.IsBusy(key("x")), "an unnamed change")
	table.Done(&ch)
	assert.False(t, table.IsBusy(key("x")))
	table.RemoveObject(key("x"))
	assert.False(t, table.NothingHeld(&ch), "changes are named for a while")
	assert.Zero(t, table.total.n.Load())
}
