package delegation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEarlyRecall checks rule b: the Holder answers the recall of an unknown
// grant at once, and the grant is void when its reply arrives.
func TestEarlyRecall(t *testing.T) {
	h := holder(t)
	var op Op
	a, _ := h.Ask(&op, 0)
	b, _ := h.Ask(&op, 0)
	fx, err := h.Immediate(recallOf(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Returns: kind2(7, 3)}, fx)
	d, _, err := h.Granted(b, ok(7, 5))
	require.NoError(t, err)
	require.NotNil(t, d, "another generation")
	void, _, err := h.Granted(a, ok(7, 3))
	require.NoError(t, err)
	assert.Nil(t, void)
	assert.True(t, h.Trusts(d, 0))
	assert.Empty(t, h.early)

	// With too many early recalls to remember, all ACQUIREs under way become
	// void.
	a, _ = h.Ask(&op, 0)
	for i := range uint32(maxEarly + 1) {
		_, err := h.Immediate(recallOf(100+i, 1))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(h.early), maxEarly)
	b, _ = h.Ask(&op, 0)
	void, _, err = h.Granted(a, ok(100, 1))
	require.NoError(t, err)
	assert.Nil(t, void)
	d, _, err = h.Granted(b, ok(99, 1))
	require.NoError(t, err)
	assert.NotNil(t, d)
	assert.Empty(t, h.early, "no more requests")
}

// TestSlotUsedAgain checks that a new grant in a slot replaces the old
// delegation that the client still has, which the server found unused.
func TestSlotUsedAgain(t *testing.T) {
	h := holder(t)
	old := hold(t, h, 7, 3, 0)
	var shut, op Op
	require.True(t, h.Close(old, &shut, 0))
	h.Answered(&shut, uint64(MakeWord(3, 1)), 0)
	require.Equal(t, Post, h.Open(old, &op, 0))
	var ask Op
	a, _ := h.Ask(&ask, 0)
	d, fx, err := h.Granted(a, ok(7, 5))
	require.NoError(t, err)
	assert.Equal(t, []*Delegation{old}, fx.Drops)
	v, fx := h.Answered(&op, uint64(MakeWord(5, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	assert.True(t, h.Trusts(d, 0))
	assert.False(t, h.Close(old, &shut, 0), "it would close the new delegation")

	// The same applies if the recall of the new grant arrives first. The answer
	// waits for an operation of the old delegation.
	require.True(t, h.Close(d, &shut, 0))
	a, _ = h.Ask(&ask, 0)
	fx, err = h.Immediate(recallOf(7, 7))
	require.NoError(t, err)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	_, fx = h.Answered(&shut, uint64(MakeWord(5, 1)), 0)
	assert.Equal(t, Posts{Returns: kind2(7, 7)}, fx)
	void, _, err := h.Granted(a, ok(7, 7))
	require.NoError(t, err)
	assert.Nil(t, void)
}

func TestHolderErrors(t *testing.T) {
	for name, do := range map[string]func(h *Holder, a Asking) error{
		"recall with the lease's slot": func(h *Holder, _ Asking) error { _, err := h.Immediate(recallOf(0, 0)); return err },
		"recall of no slot":            func(h *Holder, _ Asking) error { _, err := h.Immediate(recallOf(slots, 0)); return err },
		"grant of no slot":             func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(slots, 0)); return err },
		"grant with the lease's slot":  func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(0, 0)); return err },
		"grant of a held slot":         func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(1, 1)); return err },
		"grant before the return": func(h *Holder, a Asking) error {
			_, err := h.Immediate(recallOf(1, 1))
			if err == nil {
				_, _, err = h.Granted(a, ok(1, 3))
			}
			return err
		},
		"another kind": func(h *Holder, _ Asking) error { _, err := h.Immediate(returned(Grant{1, 1})); return err },
	} {
		t.Run(name, func(t *testing.T) {
			h := holder(t)
			hold(t, h, 1, 1, 0)
			a, _ := h.Ask(new(Op), 0)
			assert.Error(t, do(h, a))
		})
	}
}

// TestDisconnect checks that the end of a connection ends everything under way.
func TestDisconnect(t *testing.T) {
	h := holder(t)
	held, asked := hold(t, h, 1, 1, 0), hold(t, h, 2, 1, 0)
	var op Op
	require.True(t, h.Close(held, &op, 0))
	_, err := h.Immediate(recallOf(2, 1))
	require.NoError(t, err)
	a, _ := h.Ask(new(Op), 0)
	fx := h.Disconnect()
	assert.ElementsMatch(t, []*Delegation{held, asked}, fx.Drops)
	assert.Empty(t, fx.Returns)
	assert.Empty(t, h.Dropped(asked))
	v, fx := h.Answered(&op, uint64(MakeWord(1, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	d, fx, err := h.Granted(a, ok(3, 1))
	assert.Nil(t, d)
	assert.Empty(t, fx)
	require.NoError(t, err)
	fx, err = h.Immediate(recallOf(3, 1))
	assert.Empty(t, fx)
	require.NoError(t, err)
	assert.False(t, h.Renew(&op, lease))
	assert.False(t, usable(h, held))
}
