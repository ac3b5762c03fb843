package recall

import (
	"context"
	"errors"
	"math/rand/v2"
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

// held makes a confirmed holder of an object, which counts its recalls.
func held(t *testing.T, table *Table, owner uint64, mild bool, key string) (h *Holder, recalls *atomic.Int32) {
	t.Helper()
	recalls = new(atomic.Int32)
	h = &Holder{Owner: owner, Mild: mild, Recall: func() { recalls.Add(1) }}
	require.True(t, table.Hold(h, []byte(key)))
	require.True(t, h.Confirm())
	return h, recalls
}

// TestChange checks that a change recalls its object once from each holder, and
// waits for all of them.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		a, recallsA := held(t, table, 1, false, "x")
		b, recallsB := held(t, table, 2, false, "x")
		other, recallsOther := held(t, table, 1, false, "y")
		var ch Change
		assert.False(t, table.Blind(&ch))
		assert.True(t, table.Begin(&ch, 1, []byte("z")))
		assert.False(t, table.Begin(&ch, 1, []byte("x")))
		assert.False(t, table.Begin(&ch, 1, []byte("x")), "named twice")
		time.AfterFunc(100*time.Millisecond, a.Return)
		time.AfterFunc(200*time.Millisecond, b.Return)
		start := time.Now()
		require.NoError(t, table.Wait(t.Context(), &ch, fairshare.Name{}))
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		assert.True(t, table.Begin(&ch, 1, []byte("x")))
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the change runs")
		table.Done(&ch)
		table.Done(&ch)
		assert.EqualValues(t, 1, recallsA.Load())
		assert.EqualValues(t, 1, recallsB.Load())
		assert.Zero(t, recallsOther.Load())
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the pause")
		time.Sleep(pauseTime)
		again, _ := held(t, table, 2, false, "x")
		again.Return()
		again.Return()
		other.Return()
		assert.Zero(t, table.Len())
		assert.True(t, table.Blind(&ch))
		assert.True(t, table.Blind(&ch), "asked twice")
		assert.False(t, table.Hold(new(Holder), []byte("q")), "a blind change runs")
		table.Done(&ch)
		assert.False(t, table.Blind(&ch), "changes are named for a while")
		h, _ := held(t, table, 1, false, "q")
		h.Return()
		time.Sleep(pauseTime)
		assert.True(t, table.Blind(&ch))
		table.Done(&ch)
		for i := range table.groups {
			table.groups[i].get(nil, table.config.Now())
			assert.Empty(t, table.groups[i].objects)
			assert.Zero(t, table.groups[i].tally.n.Load())
		}
		assert.Zero(t, table.all.n.Load())
	})
}

// TestMild checks that a change leaves a mild holder of the client that makes the
// change, and no other.
func TestMild(t *testing.T) {
	table := newTable()
	mild, recallsMild := held(t, table, 1, true, "x")
	strict, recallsStrict := held(t, table, 1, false, "y")
	var ch Change
	assert.True(t, table.Begin(&ch, 1, []byte("x")))
	assert.False(t, table.Begin(&ch, 1, []byte("y")))
	table.Done(&ch)
	assert.Zero(t, recallsMild.Load())
	assert.False(t, table.Begin(&ch, 0, []byte("x")))
	table.Done(&ch)
	assert.EqualValues(t, 1, recallsMild.Load())
	assert.EqualValues(t, 1, recallsStrict.Load())
	mild.Return()
	strict.Return()
}

// TestPutOff checks that a change is put off after its patience, or if its party
// has too many changes that wait, and then waits for nobody.
func TestPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		h, _ := held(t, table, 1, false, "x")
		var wg sync.WaitGroup
		var late, refused atomic.Int32
		for range maxWaiting {
			wg.Go(func() {
				var ch Change
				start := time.Now()
				if !table.Begin(&ch, 0, []byte("x")) {
					assert.ErrorIs(t, table.Wait(context.Background(), &ch, fairshare.Name{}), ErrPutOff)
				}
				if time.Since(start) >= Patience {
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
		assert.False(t, table.Begin(&ch, 0, []byte("x")))
		assert.ErrorIs(t, table.Wait(ctx, &ch, fairshare.Name{}), gone)
		assert.Empty(t, h.waiters)
		h.Return()
	})
}

// TestEarly checks that a holder that is recalled before it is confirmed is not
// told, and does not last.
func TestEarly(t *testing.T) {
	table := newTable()
	for name, recall := range map[string]func(h *Holder){
		"change": func(*Holder) {
			var ch Change
			assert.False(t, table.Begin(&ch, 0, []byte("change")))
			table.Done(&ch)
		},
		"break": (*Holder).Break,
		"all":   func(*Holder) { table.RecallAll() },
	} {
		h := &Holder{Recall: func() { t.Error("told") }}
		require.True(t, table.Hold(h, []byte(name)))
		recall(h)
		assert.False(t, h.Confirm())
		h.Return()
		h.Break()
	}
	h, recalls := held(t, table, 0, false, "x")
	table.RecallAll()
	table.RecallAll()
	h.Break()
	assert.EqualValues(t, 1, recalls.Load())
	h.Return()
}

// TestConcurrent checks under load that no change runs while a confirmed holder of
// its object has not returned it, and that nothing is left.
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
				h := &Holder{Recall: func() { told <- struct{}{} }}
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
				if rand.IntN(4) == 0 && table.Blind(&ch) {
					changes[i].Add(1)
					assert.Zero(t, holds[i].Load(), "changed blindly while held")
					changes[i].Add(-1)
					table.Done(&ch)
					continue
				}
				for !table.Begin(&ch, 0, key(i)) {
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
	assert.Zero(t, table.all.n.Load())
	for i := range table.groups {
		assert.Zero(t, table.groups[i].tally.n.Load())
	}
}

// TestCost checks that a change allocates nothing, with and without holders of
// other objects.
func TestCost(t *testing.T) {
	table := newTable()
	var ch Change
	key := []byte("x")
	change := func() {
		if !table.Blind(&ch) && !table.Begin(&ch, 1, key) {
			t.Error("held")
		}
		table.Done(&ch)
	}
	assert.Zero(t, testing.AllocsPerRun(100, change))
	h, _ := held(t, table, 1, false, "y")
	assert.Zero(t, testing.AllocsPerRun(100, change))
	h.Return()
	var none *Table
	assert.True(t, none.Blind(&ch))
	assert.True(t, none.Begin(&ch, 1, key))
	assert.NoError(t, none.Wait(t.Context(), &ch, fairshare.Name{}))
	none.Done(&ch)
	none.RecallAll()
	assert.Zero(t, none.Len())
}

// TestBeginFree checks that BeginFree recalls nothing, but keeps a free object from
// being held until the change is done.
func TestBeginFree(t *testing.T) {
	table := newTable()
	h, recalls := held(t, table, 1, true, "x")
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
	again, _ := held(t, table, 1, false, "x")
	again.Return()
	again, _ = held(t, table, 1, false, "y")
	again.Return()
	for i := range table.groups {
		require.Zero(t, table.groups[i].tally.n.Load())
	}
	var none *Table
	assert.True(t, none.BeginFree(&ch, 1, []byte("x")))
}

// BenchmarkChange measures the cost of a change of an object that nobody holds:
// while nothing is held, and while others are.
func BenchmarkChange(b *testing.B) {
	for name, holders := range map[string]int{"nothing held": 0, "1,000 others held": 1000} {
		b.Run(name, func(b *testing.B) {
			table := newTable()
			for i := range holders {
				h := &Holder{Recall: func() {}}
				if !table.Hold(h, []byte{byte(i), byte(i >> 8)}) || !h.Confirm() {
					b.Fatal("not held")
				}
			}
			var ch Change
			key := []byte("the key of the object")
			for b.Loop() {
				if !table.Blind(&ch) && !table.Begin(&ch, 1, key) {
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
		reader, recalls := held(t, table, 1, true, "r")
		assert.False(t, table.Hold(&Holder{Owner: 1, Writer: "w"}, []byte("r")), "another holds it")
		var ch Change
		assert.False(t, table.Written())
		assert.True(t, table.BeginRead(&ch, 2, []byte("r")))

		told := new(atomic.Int32)
		w := &Holder{Owner: 1, Mild: true, Writer: "w", Recall: func() { told.Add(1) }}
		require.True(t, table.Hold(w, []byte("x")))
		assert.Nil(t, table.Writer(2, []byte("x")), "the client does not know yet")
		require.True(t, w.Confirm())
		assert.True(t, table.Written())
		assert.False(t, table.Hold(&Holder{Owner: 1}, []byte("x")))
		assert.Equal(t, w, table.Writer(2, []byte("x")))
		assert.Equal(t, w, table.Writer(0, []byte("x")))
		assert.Nil(t, table.Writer(1, []byte("x")))
		assert.Nil(t, table.Writer(2, []byte("r")))
		assert.Nil(t, table.Writer(2, []byte("y")))

		assert.True(t, table.BeginRead(&ch, 2, []byte("r")), "readers leave readers alone")
		assert.True(t, table.BeginRead(&ch, 1, []byte("x")), "its own client")
		assert.True(t, table.Begin(&ch, 1, []byte("x")))
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
		assert.False(t, table.Written())
		assert.False(t, table.Hold(new(Holder), []byte("x")), "the pause")
		reader.Return()
		for i := range table.groups {
			assert.Zero(t, table.groups[i].tally.n.Load())
		}
	})
}

// TestFenced checks that readers are put off while holders of an earlier Table may
// change objects, and not after that.
func TestFenced(t *testing.T) {
	writing := true
	table := New(Config{Now: func() time.Duration { return 0 }, Writing: func() bool { return writing }})
	assert.True(t, table.Written())
	assert.True(t, table.Fenced())
	writing = false
	assert.False(t, table.Fenced())
	assert.False(t, table.Written())
	writing = true
	assert.False(t, table.Fenced())
	var none *Table
	assert.False(t, none.Written() || none.Fenced())
}

// TestAwait checks that a wait ends with its cause, with Patience or with its context,
// and that a party has only a share of the places.
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
					assert.ErrorIs(t, err, ErrPutOff)
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
		assert.ErrorIs(t, table.Await(context.Background(), fairshare.Name{}, never), ErrPutOff)
		assert.Equal(t, Patience, time.Since(start))
	})
}
