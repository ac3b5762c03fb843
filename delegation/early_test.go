package delegation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEarlyRecall checks rule b: the Holder replies to an unknown grant's
// recall immediately, and the grant is void when its reply arrives.
func TestEarlyRecall(t *testing.T) {
	h := newTestHolder(t)
	var op Op
	a, _ := h.BeginAcquire(&op, 0)
	b, _ := h.BeginAcquire(&op, 0)
	fx, err := h.Immediate(recallMessage(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Returns: returnedMessages(7, 3)}, fx)
	d, _, err := h.Granted(b, grantedRes(7, 5))
	require.NoError(t, err)
	require.NotNil(t, d, "another generation")
	void, _, err := h.Granted(a, grantedRes(7, 3))
	require.NoError(t, err)
	assert.Nil(t, void)
	assert.True(t, h.Trusts(d, 0))
	assert.Empty(t, h.earlyRecalls)

	// With too many early recalls to remember, all ACQUIREs in flight become
	// void.
	a, _ = h.BeginAcquire(&op, 0)
	for i := range uint32(maxEarly + 1) {
		_, err := h.Immediate(recallMessage(100+i, 1))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(h.earlyRecalls), maxEarly)
	b, _ = h.BeginAcquire(&op, 0)
	void, _, err = h.Granted(a, grantedRes(100, 1))
	require.NoError(t, err)
	assert.Nil(t, void)
	d, _, err = h.Granted(b, grantedRes(99, 1))
	require.NoError(t, err)
	assert.NotNil(t, d)
	assert.Empty(t, h.earlyRecalls, "no more requests")
}

// TestSlotUsedAgain checks that a new grant in a slot replaces the old
// delegation that the client still has, which the server found unused.
func TestSlotUsedAgain(t *testing.T) {
	h := newTestHolder(t)
	old := holdGrant(t, h, 7, 3, 0)
	var shut, op Op
	require.True(t, h.Close(old, &shut, 0))
	h.Answered(&shut, uint64(makeWord(3, 1)), 0)
	require.Equal(t, Post, h.Open(old, &op, 0))
	var ask Op
	a, _ := h.BeginAcquire(&ask, 0)
	d, fx, err := h.Granted(a, grantedRes(7, 5))
	require.NoError(t, err)
	assert.Equal(t, []*Delegation{old}, fx.Drops)
	v, fx := h.Answered(&op, uint64(makeWord(5, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	assert.True(t, h.Trusts(d, 0))
	assert.False(t, h.Close(old, &shut, 0), "it would close the new delegation")

	// The same applies if the recall of the new grant arrives first. The reply
	// waits for an operation on the old delegation.
	require.True(t, h.Close(d, &shut, 0))
	a, _ = h.BeginAcquire(&ask, 0)
	fx, err = h.Immediate(recallMessage(7, 7))
	require.NoError(t, err)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	_, fx = h.Answered(&shut, uint64(makeWord(5, 1)), 0)
	assert.Equal(t, Posts{Returns: returnedMessages(7, 7)}, fx)
	void, _, err := h.Granted(a, grantedRes(7, 7))
	require.NoError(t, err)
	assert.Nil(t, void)
}

func TestHolderErrors(t *testing.T) {
	for name, do := range map[string]func(h *Holder, a PendingAcquire) error{
		"recall with the lease's slot": func(h *Holder, _ PendingAcquire) error { _, err := h.Immediate(recallMessage(0, 0)); return err },
		"recall of no slot":            func(h *Holder, _ PendingAcquire) error { _, err := h.Immediate(recallMessage(slots, 0)); return err },
		"grant of no slot":             func(h *Holder, a PendingAcquire) error { _, _, err := h.Granted(a, grantedRes(slots, 0)); return err },
		"grant with the lease's slot":  func(h *Holder, a PendingAcquire) error { _, _, err := h.Granted(a, grantedRes(0, 0)); return err },
		"grant of a held slot":         func(h *Holder, a PendingAcquire) error { _, _, err := h.Granted(a, grantedRes(1, 1)); return err },
		"grant before the return": func(h *Holder, a PendingAcquire) error {
			_, err := h.Immediate(recallMessage(1, 1))
			if err == nil {
				_, _, err = h.Granted(a, grantedRes(1, 3))
			}
			return err
		},
		"another kind": func(h *Holder, _ PendingAcquire) error {
			_, err := h.Immediate(returnedMessage(Grant{1, 1}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestHolder(t)
			holdGrant(t, h, 1, 1, 0)
			a, _ := h.BeginAcquire(new(Op), 0)
			assert.Error(t, do(h, a))
		})
	}
}

// TestDisconnect checks that everything in progress ends when a connection
// closes.
func TestDisconnect(t *testing.T) {
	h := newTestHolder(t)
	held, asked := holdGrant(t, h, 1, 1, 0), holdGrant(t, h, 2, 1, 0)
	var op Op
	require.True(t, h.Close(held, &op, 0))
	_, err := h.Immediate(recallMessage(2, 1))
	require.NoError(t, err)
	a, _ := h.BeginAcquire(new(Op), 0)
	fx := h.Disconnect()
	assert.ElementsMatch(t, []*Delegation{held, asked}, fx.Drops)
	assert.Empty(t, fx.Returns)
	assert.Empty(t, h.Dropped(asked))
	v, fx := h.Answered(&op, uint64(makeWord(1, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	d, fx, err := h.Granted(a, grantedRes(3, 1))
	assert.Nil(t, d)
	assert.Empty(t, fx)
	require.NoError(t, err)
	fx, err = h.Immediate(recallMessage(3, 1))
	assert.Empty(t, fx)
	require.NoError(t, err)
	assert.False(t, h.Renew(&op, lease))
	assert.False(t, isUsable(h, held))
}
