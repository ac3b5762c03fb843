package oncrpc

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMemo checks that several memos, of one type or of several, remember
// different things about several peers.
func TestMemo(t *testing.T) {
	var a, b Memo[int]
	var c Memo[string]
	var p, q Peer
	assert.Nil(t, a.Load(&p))
	one, two, word := 1, 2, "word"
	a.Store(&p, &one)
	assert.Nil(t, b.Load(&p))
	assert.Nil(t, a.Load(&q))
	b.Store(&p, &two)
	c.Store(&p, &word)
	assert.Same(t, &one, a.Load(&p))
	assert.Same(t, &two, b.Load(&p))
	assert.Same(t, &word, c.Load(&p))
	a.Store(&p, &two)
	assert.Same(t, &two, a.Load(&p))
	got, stored := a.LoadOrStore(&p, &one)
	assert.Same(t, &two, got)
	assert.False(t, stored)
	got, stored = a.LoadOrStore(&q, &one)
	assert.Same(t, &one, got)
	assert.True(t, stored)
	assert.Zero(t, testing.AllocsPerRun(10, func() { a.Load(&p); c.Store(&p, &word) }))
}

// TestMemoConcurrent checks that goroutines which meet a new peer at the same
// time agree on what is remembered.
func TestMemoConcurrent(t *testing.T) {
	for range 20 {
		var memos [4]Memo[int]
		var p Peer
		var all sync.WaitGroup
		var got [8][len(memos)]*int
		for i := range got {
			all.Go(func() {
				for j := range memos {
					got[i][j], _ = memos[j].LoadOrStore(&p, new(int))
				}
			})
		}
		all.Wait()
		for i := range got {
			assert.Equal(t, got[0], got[i])
			for j := range memos {
				assert.Same(t, got[0][j], got[i][j])
			}
		}
	}
}
