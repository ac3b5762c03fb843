package lookupcache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of exports.Resolver check the use of old answers and the number of
// concurrent questions.

// TestKept checks that the number of kept answers is bounded, and that an
// answer with an outstanding question stays.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 10
		slow := make(chan struct{})
		r := New(Config[struct{}, int, int]{
			Ask: func(_ context.Context, _ struct{}, q int) (int, bool, error) {
				if q == 0 {
					<-slow
				}
				return q + 1, false, nil
			},
			Limits: Limits{Time: time.Hour, AtOnce: 2, Kept: kept, Fresh: time.Hour, Stale: time.Hour},
		})
		defer r.Close()
		first := make(chan int)
		go func() {
			is, err := r.Of(t.Context(), struct{}{}, 0)
			assert.NoError(t, err)
			first <- is
		}()
		synctest.Wait()
		for q := 1; q < 5*kept; q++ {
			is, err := r.Of(t.Context(), struct{}{}, q)
			require.NoError(t, err)
			assert.Equal(t, q+1, is)
			assert.LessOrEqual(t, len(r.known), kept)
			assert.Contains(t, r.known, 0)
		}
		close(slow)
		assert.Equal(t, 1, <-first)
	})
}

// TestRefusedKept checks that questions that a party may not ask do not evict known
// answers.
func TestRefusedKept(t *testing.T) {
	const kept = 4
	r := New(Config[int, int, int]{
		Ask:    func(_ context.Context, _, q int) (int, bool, error) { return q + 1, false, nil },
		Take:   func(of int) bool { return of == 0 },
		Give:   func(int) {},
		Limits: Limits{Time: time.Hour, AtOnce: 1, Kept: kept, Fresh: time.Hour, Stale: time.Hour},
	})
	defer r.Close()
	for q := range kept {
		_, err := r.Of(t.Context(), 0, q)
		require.NoError(t, err)
	}
	for q := range 10 * kept {
		_, err := r.Of(t.Context(), 1, kept+q)
		require.ErrorIs(t, err, ErrBusy)
	}
	for q := range kept {
		is, err := r.Of(t.Context(), 1, q)
		require.NoError(t, err)
		assert.Equal(t, q+1, is)
	}
}

// TestOfAllocates checks that known answers cost no allocation.
func TestOfAllocates(t *testing.T) {
	r := New(Config[struct{}, int, []int]{
		Ask:    func(context.Context, struct{}, int) ([]int, bool, error) { return []int{1}, false, nil },
		Limits: Limits{Time: time.Hour, AtOnce: 1, Kept: 1, Fresh: time.Hour, Stale: time.Hour},
	})
	defer r.Close()
	_, err := r.Of(t.Context(), struct{}{}, 1)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.Of(t.Context(), struct{}{}, 1) }))
}

// TestKeptByParty checks that a party that asks many questions does not evict
// others' answers, and that the cached answers bound the memory.
func TestKeptByParty(t *testing.T) {
	const kept = 16
	var asked []int
	r := New(Config[int, int, int]{
		Ask: func(_ context.Context, of, q int) (int, bool, error) {
			asked = append(asked, of)
			return q + 1, false, nil
		},
		Limits: Limits{Time: time.Hour, AtOnce: 1, Kept: kept, Fresh: time.Hour, Stale: time.Hour},
	})
	defer r.Close()
	ask := func(of, from, n int) {
		for q := from; q < from+n; q++ {
			_, err := r.Of(t.Context(), of, q)
			require.NoError(t, err)
		}
	}
	ask(1, 0, kept/4)
	ask(2, 1000, 10*kept)
	ask(3, 5000, kept/4)
	asked = nil
	ask(1, 0, kept/4)
	ask(3, 5000, kept/4)
	assert.Empty(t, asked, "answers of others were forgotten")
	assert.Len(t, r.known, kept)
	for of := range 10 * kept {
		ask(100+of, 10000+of, 1)
	}
	all := 0
	for of, some := range r.byParty {
		assert.NotEmpty(t, some, of)
		all += len(some)
	}
	assert.Equal(t, kept, all)
	assert.Len(t, r.known, kept)
}

// TestForget checks that dropped answers are queried again, and that an earlier
// question is answered only for its caller.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		asked := 0
		r := New(Config[int, string, int]{
			Ask: func(context.Context, int, string) (int, bool, error) {
				asked++
				n := asked
				if n == 2 {
					<-let
				}
				return n, false, nil
			},
			Failed: func(string, error) {},
			Limits: Limits{Time: time.Minute, AtOnce: 10, Kept: 10, Fresh: time.Hour, None: time.Hour, Fail: time.Second, Stale: 2 * time.Hour},
		})
		defer r.Close()
		of := func() int {
			n, err := r.Of(t.Context(), 1, "q")
			assert.NoError(t, err)
			return n
		}
		assert.Equal(t, []int{1, 1}, []int{of(), of()})
		r.Forget()
		late := make(chan int)
		go func() { late <- of() }()
		synctest.Wait()
		r.Forget()
		assert.Equal(t, 3, of())
		close(let)
		assert.Equal(t, 2, <-late)
		assert.Equal(t, 3, of())
		assert.Equal(t, 3, asked)
	})
}
