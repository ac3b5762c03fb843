package rpcrdma

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/stretchr/testify/assert"
)

// TestDispatchOrder checks that a party's calls run in their order, that
// parties take turns, that a party which may run no more keeps its turn, and
// that a party which runs none always may run one.
func TestDispatchOrder(t *testing.T) {
	var a, b, c, other partyQueue
	names := make(map[*call]string)
	d := dispatcher{max: 9}
	submit := func(q *partyQueue, calls ...string) {
		for _, name := range calls {
			cl := &call{conn: &conn{party: &fairshare.Party[partyShares]{Own: partyShares{queue: q}}}}
			names[cl] = name
			d.submit(cl)
		}
	}
	next := func(q *partyQueue) string { return names[d.nextCall(q)] }
	for _, q := range []*partyQueue{&a, &a, &b, &c, &c, &other, &other, &other, &other} {
		d.adoptGoroutine(q)
	}
	submit(&a, "a1", "a2")
	submit(&b, "b1", "b2")
	submit(&c, "c1")
	assert.False(t, d.tryAdopt(&other), "there is no place")
	assert.Empty(t, next(&other), "one place is free")
	assert.False(t, d.tryAdopt(&b), "its queued calls come first")
	assert.Equal(t, "b1", next(&other), "two are free, and a and c run two")
	assert.Empty(t, next(&other))
	assert.Equal(t, "a1", next(&other), "three are free, and it is still a's turn")
	assert.Equal(t, "c1", next(&a))
	assert.Equal(t, "b2", next(&c))
	assert.Equal(t, "a2", next(&b))
	submit(&a, "a3")
	submit(&c, "c2")
	assert.Equal(t, "c2", next(&c), "a runs three")
	assert.Equal(t, "a3", next(&a))
	for range 3 {
		d.adoptGoroutine(&other)
	}
	submit(&a, "a4")
	submit(&b, "b3", "b4")
	assert.Empty(t, next(&b))
	assert.Equal(t, "b3", next(&b), "one place is free, and b runs none")
	assert.Equal(t, "b4", next(&b))
	assert.Empty(t, next(&b), "b waits for nothing")
	assert.Empty(t, next(&other))
	assert.Empty(t, next(&other), "a runs three, and three places are free")
	assert.Equal(t, "a4", next(&other))
	var fresh partyQueue
	running := d.running
	assert.True(t, d.tryAdopt(&fresh), "one call of a party always may run")
	assert.Equal(t, running+1, d.running)
}
