package recall

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

const pauseTime = 30 * time.Second

func newTable() *Table {
	start := time.Now()
	return New(Config{Now: func() time.Duration { return time.Since(start) }, Pause: pauseTime})
}

// holdObject returns a confirmed holder of an object, which counts its recalls.
func holdObject(t *testing.T, table *Table, owner uint64, mild bool, key string) (h *Holder, recalls *atomic.Int32) {
	t.Helper()
	recalls = new(atomic.Int32)
	h = &Holder{Owner: owner, IgnoreOwner: mild, Recall: func(Changer) { recalls.Add(1) }}
	require.True(t, table.Hold(h, []byte(key)))
	require.True(t, h.Confirm())
	return h, recalls
}

// TestChange checks that a change recalls its object once from each holder, and waits for all
// of them.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		a, recallsA := holdObject(t, table, 1, false, "x")
		b, recallsB := holdObject(t, table, 2, false, "x")
		other, recallsOther := holdObject(t, table, 1, false, "y")
		var ch Change
		assert.False(t, table.NothingHeld(&ch))
		assert.True(t, table.Begin(&ch, Changer{Client: 1}, []byte("z")))
		assert.False(t, table.Begin(&ch, Changer{Client: 1}, []byte("x")))
		assert.False(t, table.Begin(&ch, Changer{Client: 1}, []byte("x")), "named twice")
		time.AfterFunc(100*time.Millisecond, a.Return)
		time.AfterFunc(200*time.Millisecond, b.Return)
		start := time.Now()
		require.NoError(t, table.Wait(t.Context(), &ch, fairshare.Name{}))
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		assert.True(t, table.Begin(&ch, Changer{Client: 1}, []byte("x")))
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the change runs")
		table.Done(&ch)
		table.Done(&ch)
		assert.EqualValues(t, 1, recallsA.Load())
		assert.EqualValues(t, 1, recallsB.Load())
		assert.Zero(t, recallsOther.Load())
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the pause")
		time.Sleep(pauseTime)
		again, _ := holdObject(t, table, 2, false, "x")
		again.Return()
		again.Return()
		other.Return()
		assert.Zero(t, table.Len())
		assert.True(t, table.NothingHeld(&ch))
		assert.True(t, table.NothingHeld(&ch), "asked twice")
		assert.False(t, table.Hold(new(Holder), []byte("q")), "a blind change runs")
		table.Done(&ch)
		assert.False(t, table.NothingHeld(&ch), "changes are named for a while")
		h, _ := holdObject(t, table, 1, false, "q")
		h.Return()
		time.Sleep(pauseTime)
		assert.True(t, table.NothingHeld(&ch))
		table.Done(&ch)
		for i := range table.groups {
			table.groups[i].findObject(nil, table.config.Now())
			assert.Empty(t, table.groups[i].objects)
			assert.Zero(t, table.groups[i].tally.n.Load())
		}
		assert.Zero(t, table.total.n.Load())
	})
}

// TestMild checks that a change does not recall a holder with IgnoreOwner set that belongs to
// the client that makes the change, and recalls all others.
func TestMild(t *testing.T) {
	table := newTable()
	mild, recallsMild := holdObject(t, table, 1, true, "x")
	strict, recallsStrict := holdObject(t, table, 1, false, "y")
	var ch Change
	assert.True(t, table.Begin(&ch, Changer{Client: 1}, []byte("x")))
	assert.False(t, table.Begin(&ch, Changer{Client: 1}, []byte("y")))
	table.Done(&ch)
	assert.Zero(t, recallsMild.Load())
	assert.False(t, table.Begin(&ch, Changer{}, []byte("x")))
	table.Done(&ch)
	assert.EqualValues(t, 1, recallsMild.Load())
	assert.EqualValues(t, 1, recallsStrict.Load())
	early := &Holder{Owner: 1, IgnoreOwner: true}
	require.True(t, table.Hold(early, []byte("z")))
	assert.False(t, table.BeginFree(&ch, 1, []byte("z")), "not yet confirmed")
	require.True(t, early.Confirm())
	assert.True(t, table.BeginFree(&ch, 1, []byte("z")))
	table.Done(&ch)
	early.Return()
	mild.Return()
	strict.Return()
}

// TestYield checks that a client's own change recalls a holder that can yield, and continues at
// once, while other clients' changes wait. A holder that is not yet confirmed cannot yield.
func TestYield(t *testing.T) {
	table := newTable()
	var recalls, yields atomic.Int32
	h := &Holder{Owner: 1, Recall: func(Changer) { recalls.Add(1) }, Yield: func() { yields.Add(1) }}
	require.True(t, table.Hold(h, []byte("x")))
	require.True(t, h.Confirm())
	var own, other Change
	assert.True(t, table.Begin(&own, Changer{Client: 1}, []byte("x")))
	assert.False(t, table.Begin(&other, Changer{Client: 2}, []byte("x")))
	table.Done(&other)
	assert.True(t, table.Begin(&own, Changer{Client: 1}, []byte("x")))
	table.Done(&own)
	assert.EqualValues(t, 1, recalls.Load())
	assert.EqualValues(t, 2, yields.Load())
	assert.False(t, table.Begin(&other, Changer{}, []byte("x")))
	h.Return()
	assert.Zero(t, other.waits.Load())
	table.Done(&other)

	early := &Holder{Owner: 1, Yield: func() { t.Error("not confirmed") }}
	require.True(t, table.Hold(early, []byte("y")))
	assert.False(t, table.Begin(&own, Changer{Client: 1}, []byte("y")))
	assert.False(t, early.Confirm())
	early.Return()
	assert.True(t, table.Begin(&own, Changer{Client: 1}, []byte("y")))
	table.Done(&own)
}

// TestPutOff checks that a change must be tried again later after MaxWait, or if its client
// group has too many waiting changes, and then waits for no holder.
func TestPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		h, _ := holdObject(t, table, 1, false, "x")
		var wg sync.WaitGroup
		var late, refused atomic.Int32
		for range maxWaiting {
			wg.Go(func() {
				var ch Change
				start := time.Now()
				if !table.Begin(&ch, Changer{}, []byte("x")) {
					assert.ErrorIs(t, table.Wait(context.Background(), &ch, fairshare.Name{}), ErrTryLater)
				}
				if time.Since(start) >= MaxWait {
					late.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, maxWaiting/2, late.Load(), "a party gets half")
		assert.EqualValues(t, maxWaiting/2, refused.Load())
		assert.Empty(t, h.waiters)

		ctx, cancel := context.WithCancelCause(context.Background())
		gone := errors.New("the connection has ended")
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		var ch Change
		assert.False(t, table.Begin(&ch, Changer{}, []byte("x")))
		assert.ErrorIs(t, table.Wait(ctx, &ch, fairshare.Name{}), gone)
		assert.Empty(t, h.waiters)
		h.Return()
	})
}

// TestBoundTold checks that docs/operations.md states the bound on waiting
// changes.
func TestBoundTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprintf("\n| changes and reads that wait for delegations, and GETATTRs that wait for a client | %d | %d, or half of the rest | |\n", maxWaiting, maxWaiting/2),
		fmt.Sprintf("wait for delegations: NFS3ERR_JUKEBOX at once, and after %.0f s of waiting.", MaxWait.Seconds()),
	} {
		assert.Contains(t, strings.ReplaceAll(string(doc), "\n  ", " "), text)
	}
}

// TestEarly checks that a holder that is recalled before it is confirmed is not
// told, and does not last.
func TestEarly(t *testing.T) {
	table := newTable()
	for name, recall := range map[string]func(h *Holder){
		"change": func(*Holder) {
			var ch Change
			assert.False(t, table.Begin(&ch, Changer{}, []byte("change")))
			table.Done(&ch)
		},
		"break": (*Holder).Break,
		"all":   func(*Holder) { table.RecallAll() },
	} {
		h := &Holder{Recall: func(Changer) { t.Error("told") }}
		require.True(t, table.Hold(h, []byte(name)))
		recall(h)
		assert.False(t, h.Confirm())
		h.Return()
		h.Break()
	}
	h, recalls := holdObject(t, table, 0, false, "x")
	table.RecallAll()
	table.RecallAll()
	h.Break()
	assert.EqualValues(t, 1, recalls.Load())
	h.Return()
}

// TestConcurrent checks under load that no change runs while a confirmed holder of its object
// has not returned it, and that nothing is left.
func TestConcurrent(t *testing.T) {
	table := newTable()
	table.config.Pause = time.Microsecond
	const objects = 4
	var holds [objects]atomic.Int32
	var changes [objects]atomic.Int32
	var granted, waited atomic.Int32
	key := func(i int) []byte { return []byte{byte(i)} }
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { // holders
			for range 2000 {
				i := rand.IntN(objects)
				told := make(chan struct{}, 1)
				h := &Holder{Recall: func(Changer) { told <- struct{}{} }}
				if !table.Hold(h, key(i)) {
					continue
				}
				if h.Confirm() {
					granted.Add(1)
					holds[i].Add(1)
					assert.Zero(t, changes[i].Load(), "held during a change")
					if rand.IntN(2) == 0 {
						select {
						case <-told:
						case <-time.After(time.Millisecond):
						}
					}
					holds[i].Add(-1)
				}
				h.Return()
			}
		})
		wg.Go(func() { // changes
			var ch Change
			for range 2000 {
				i := rand.IntN(objects)
				if rand.IntN(4) == 0 && table.NothingHeld(&ch) {
					changes[i].Add(1)
					assert.Zero(t, holds[i].Load(), "changed blindly while held")
					changes[i].Add(-1)
					table.Done(&ch)
					continue
				}
				for !table.Begin(&ch, Changer{}, key(i)) {
					waited.Add(1)
					if table.Wait(context.Background(), &ch, fairshare.Name{}) != nil {
						t.Error("put off")
						return
					}
				}
				changes[i].Add(1)
				assert.Zero(t, holds[i].Load(), "changed while held")
				changes[i].Add(-1)
				table.Done(&ch)
			}
		})
	}
	wg.Wait()
	t.Logf("%d granted, %d waits", granted.Load(), waited.Load())
	assert.NotZero(t, granted.Load())
	assert.Zero(t, table.total.n.Load())
	for i := range table.groups {
		assert.Zero(t, table.groups[i].tally.n.Load())
	}
}

// TestCost checks that a change allocates nothing, with and without holders of other objects.
func TestCost(t *testing.T) {
	table := newTable()
	var ch Change
	key := []byte("x")
	change := func() {
		if !table.NothingHeld(&ch) && !table.Begin(&ch, Changer{Client: 1}, key) {
			t.Error("held")
		}
		table.Done(&ch)
	}
	assert.Zero(t, testing.AllocsPerRun(100, change))
	h, _ := holdObject(t, table, 1, false, "y")
	assert.Zero(t, testing.AllocsPerRun(100, change))
	h.Return()
	var none *Table
	assert.True(t, none.NothingHeld(&ch))
	assert.True(t, none.Begin(&ch, Changer{Client: 1}, key))
	assert.NoError(t, none.Wait(t.Context(), &ch, fairshare.Name{}))
	none.Done(&ch)
	none.RecallAll()
	assert.Zero(t, none.Len())
}

// TestBeginFree checks that BeginFree recalls nothing, but keeps a free object from
// being held until the change is done.
func TestBeginFree(t *testing.T) {
	table := newTable()
	h, recalls := holdObject(t, table, 1, true, "x")
	var ch Change
	assert.False(t, table.BeginFree(&ch, 2, []byte("x")))
	assert.False(t, table.BeginFree(&ch, 0, []byte("x")))
	table.Done(&ch)
	assert.Zero(t, recalls.Load())
	assert.True(t, table.BeginFree(&ch, 1, []byte("x")), "the holder's own change, which it does not mind")
	assert.True(t, table.BeginFree(&ch, 2, []byte("y")))
	assert.False(t, table.Hold(new(Holder), []byte("y")), "the change runs")
	table.Done(&ch)
	h.Return()
	again, _ := holdObject(t, table, 1, false, "x")
	again.Return()
	again, _ = holdObject(t, table, 1, false, "y")
	again.Return()
	for i := range table.groups {
		require.Zero(t, table.groups[i].tally.n.Load())
	}
	var none *Table
	assert.True(t, none.BeginFree(&ch, 1, []byte("x")))
}

// BenchmarkChange measures the cost of a change to an object that is not held: while nothing is
// held, and while others are.
func BenchmarkChange(b *testing.B) {
	for name, holders := range map[string]int{"nothing held": 0, "1,000 others held": 1000} {
		b.Run(name, func(b *testing.B) {
			table := newTable()
			for i := range holders {
				h := &Holder{Recall: func(Changer) {}}
				if !table.Hold(h, []byte{byte(i), byte(i >> 8)}) || !h.Confirm() {
					b.Fatal("not held")
				}
			}
			var ch Change
			key := []byte("the key of the object")
			for b.Loop() {
				if !table.NothingHeld(&ch) && !table.Begin(&ch, Changer{Client: 1}, key) {
					b.Fatal("held")
				}
				table.Done(&ch)
			}
		})
	}
}

// TestWriter checks that a holder which changes its object by itself excludes others,
// and that readers recall it, and no other holder.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		reader, recalls := holdObject(t, table, 1, true, "r")
		assert.False(t, table.Hold(&Holder{Owner: 1, Writer: "w"}, []byte("r")), "another holds it")
		var ch Change
		assert.False(t, table.HasWriters())
		assert.True(t, table.BeginRead(&ch, 2, []byte("r")))

		told := new(atomic.Int32)
		w := &Holder{Owner: 1, IgnoreOwner: true, Writer: "w", Recall: func(Changer) { told.Add(1) }}
		require.True(t, table.Hold(w, []byte("x")))
		assert.Nil(t, table.Writer(2, []byte("x")), "the client does not know yet")
		require.True(t, w.Confirm())
		assert.True(t, table.HasWriters())
		assert.False(t, table.Hold(&Holder{Owner: 1}, []byte("x")))
		assert.Equal(t, w, table.Writer(2, []byte("x")))
		assert.Equal(t, w, table.Writer(0, []byte("x")))
		assert.Nil(t, table.Writer(1, []byte("x")))
		assert.Nil(t, table.Writer(2, []byte("r")))
		assert.Nil(t, table.Writer(2, []byte("y")))

		assert.True(t, table.BeginRead(&ch, 2, []byte("r")), "readers leave readers alone")
		assert.True(t, table.BeginRead(&ch, 1, []byte("x")), "its own client")
		assert.True(t, table.Begin(&ch, Changer{Client: 1}, []byte("x")))
		table.Done(&ch)
		assert.Zero(t, told.Load())
		assert.False(t, table.BeginRead(&ch, 2, []byte("x")))
		time.AfterFunc(100*time.Millisecond, w.Return)
		start := time.Now()
		require.NoError(t, table.Wait(t.Context(), &ch, fairshare.Name{}))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.True(t, table.BeginRead(&ch, 2, []byte("x")))
		table.Done(&ch)
		assert.EqualValues(t, 1, told.Load())
		assert.Zero(t, recalls.Load())
		assert.False(t, table.HasWriters())
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the pause")
		reader.Return()
		for i := range table.groups {
			assert.Zero(t, table.groups[i].tally.n.Load())
		}
	})
}

// TestFenced checks that readers must try again later while holders in an earlier Table may
// change objects, and not after that.
func TestFenced(t *testing.T) {
	writing := true
	table := New(Config{Now: func() time.Duration { return 0 }, Writing: func() bool { return writing }})
	assert.True(t, table.HasWriters())
	assert.True(t, table.IsFenced())
	writing = false
	assert.False(t, table.IsFenced())
	assert.False(t, table.HasWriters())
	writing = true
	assert.False(t, table.IsFenced())
	var none *Table
	assert.False(t, none.HasWriters() || none.IsFenced())
}

// TestAwait checks that a wait ends with its cause, with MaxWait or with its context, and that
// a client group has only a share of the places.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		done := make(chan struct{})
		var wg sync.WaitGroup
		var refused atomic.Int32
		start := time.Now()
		for range maxWaiting {
			wg.Go(func() {
				if err := table.Await(context.Background(), fairshare.Name{}, done); err != nil {
					assert.ErrorIs(t, err, ErrTryLater)
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		assert.EqualValues(t, maxWaiting/2, refused.Load())
		close(done)
		wg.Wait()
		assert.Equal(t, time.Duration(0), time.Since(start))
		ctx, cancel := context.WithCancelCause(context.Background())
		gone := errors.New("gone")
		cancel(gone)
		never := make(chan struct{})
		assert.ErrorIs(t, table.Await(ctx, fairshare.Name{}, never), gone)
		assert.ErrorIs(t, table.Await(context.Background(), fairshare.Name{}, never), ErrTryLater)
		assert.Equal(t, MaxWait, time.Since(start))
	})
}

// TestConnHolders checks that the holders of an object on connections are listed until they return it,
// and whether they are recalled.
func TestConnHolders(t *testing.T) {
	table := newTable()
	holdObject(t, table, 1, false, "x") // by no connection
	var held []*Holder
	for _, conn := range []string{"a", "b", "c"} {
		h := &Holder{Conn: conn, Recall: func(Changer) {}}
		require.True(t, table.Hold(h, []byte("x")))
		held = append(held, h)
	}
	assert.Empty(t, table.ConnHolders([]byte("x"), 9), "not confirmed")
	for _, h := range held {
		require.True(t, h.Confirm())
	}
	held[0].Return()
	held[1].Break()
	assert.Equal(t, []HolderInfo{{Conn: "b", Recalled: true}, {Conn: "c"}}, table.ConnHolders([]byte("x"), 9))
	assert.Len(t, table.ConnHolders([]byte("x"), 1), 1)
	assert.Empty(t, table.ConnHolders([]byte("y"), 9))
	assert.Empty(t, (*Table)(nil).ConnHolders([]byte("x"), 9))
}
