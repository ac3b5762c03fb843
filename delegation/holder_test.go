package delegation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const slots = 1 << 20

// grantedRes returns a reply with a grant.
func grantedRes(slot, generation uint32) *AcquireRes {
	return &AcquireRes{Slot: slot, Generation: generation, Types: FileData, LeaseMS: uint32(lease.Milliseconds())}
}

func recallMessage(slot, generation uint32) [8]byte {
	return Immediate{KindRecall, slot, generation}.Bytes()
}

func returnedMessages(slot, generation uint32) []Immediate {
	return []Immediate{{KindReturned, slot, generation}}
}

// newTestHolder returns a Holder whose lease is trusted from time 0.
func newTestHolder(t *testing.T) *Holder {
	h := NewHolder(slots)
	var op Op
	a, renew := h.BeginAcquire(&op, 0)
	require.True(t, renew)
	assert.Equal(t, Op{Kind: OpRenew, Word: LeaseWord, seq: 1}, op)
	h.Answered(&op, 0, 0)
	h.NotGranted(a)
	return h
}

// holdGrant returns a delegation newly granted to h.
func holdGrant(t *testing.T, h *Holder, slot, generation uint32, now time.Duration) *Delegation {
	t.Helper()
	var op Op
	a, renew := h.BeginAcquire(&op, now)
	if renew {
		h.Answered(&op, 0, now)
	}
	d, fx, err := h.Granted(a, grantedRes(slot, generation))
	require.NoError(t, err)
	require.Empty(t, fx)
	require.NotNil(t, d)
	return d
}

// TestHolder checks rules d, e and f during a delegation's lifetime.
func TestHolder(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 7, 3, 0)
	assert.True(t, h.Trusts(d, 0))
	assert.True(t, h.Trusts(d, trustTime(lease)-1))
	assert.False(t, h.Trusts(d, trustTime(lease)), "rule f")
	assert.Equal(t, trustTime(lease)-time.Second, h.Trust(d, time.Second))
	assert.Zero(t, h.Trust(d, trustTime(lease)+1))

	now := time.Second
	var open, shut, look Op
	assert.Equal(t, Serve, h.Open(d, &open, now), "it is open")
	assert.False(t, h.Close(d, &shut, now))
	require.True(t, h.Close(d, &shut, now))
	assert.Equal(t, OpClose, shut.Kind)
	assert.EqualValues(t, 7, shut.Word)
	assert.False(t, h.Trusts(d, now), "rule d")

	require.Equal(t, Post, h.Check(d, &look, now))
	assert.Equal(t, OpValidate, look.Kind)
	require.Equal(t, Post, h.Open(d, &open, now))
	assert.Equal(t, OpOpen, open.Kind)
	var second Op
	require.Equal(t, Post, h.Open(d, &second, now))
	assert.Equal(t, OpValidate, second.Kind, "one use stands for all")
	for _, op := range []*Op{&shut, &look} {
		v, fx := h.Answered(op, uint64(makeWord(3, 1)), now)
		assert.Empty(t, fx)
		assert.Equal(t, op == &look, v == Serve)
		assert.False(t, h.Trusts(d, now))
	}
	for _, op := range []*Op{&open, &second} {
		v, _ := h.Answered(op, uint64(makeWord(3, 0)), now)
		assert.Equal(t, Serve, v)
		assert.True(t, h.Trusts(d, now))
	}

	// Rule e: the return waits for operations in progress, and until all is
	// dropped.
	later := trustTime(lease)
	require.Equal(t, Post, h.Check(d, &look, later))
	fx, err := h.Immediate(recallMessage(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	assert.True(t, h.Recalled(d))
	assert.False(t, h.Trusts(d, now))
	assert.Equal(t, Void, h.Open(d, &open, now))
	assert.Equal(t, Void, h.Check(d, &open, now))
	for range 3 {
		assert.False(t, h.Close(d, &shut, now), "of an old generation")
	}
	_, err = h.Immediate(recallMessage(7, 3))
	require.ErrorIs(t, err, ErrRepeated)
	assert.Empty(t, h.Dropped(d))
	assert.Empty(t, h.Dropped(d))
	v, fx := h.Answered(&look, uint64(makeWord(3, 1)), later)
	assert.Equal(t, Void, v, "rule a: kind 1 was received")
	assert.Equal(t, Posts{Returns: returnedMessages(7, 3)}, fx)
	assert.Empty(t, h.slots)
	_, due := h.RenewDue()
	assert.False(t, due, "no delegation is held")
}

// TestAnswers checks rule a: another generation, or a response that arrives too
// late.
func TestAnswers(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 7, 3, 0)
	var op Op
	h.Close(d, &op, 0)
	h.Answered(&op, uint64(makeWord(3, 1)), 0)

	require.Equal(t, Post, h.Open(d, &op, 0))
	renew(t, h, lease-1, lease-1)
	v, _ := h.Answered(&op, uint64(makeWord(3, 0)), lease)
	assert.Equal(t, Doubt, v)
	assert.False(t, h.Trusts(d, lease))
	require.Equal(t, Post, h.Check(d, &op, lease))
	v, _ = h.Answered(&op, uint64(makeWord(3, 1)), 2*lease-1)
	assert.Equal(t, Doubt, v, "rule f")
	require.Equal(t, Post, h.Check(d, &op, 2*lease))
	v, fx := h.Answered(&op, uint64(makeWord(4, 1)), 2*lease)
	assert.Equal(t, Void, v)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	assert.False(t, h.Recalled(d))
	assert.Empty(t, h.Dropped(d), "no delegation to return")

	// If the server still recalls the delegation, the Holder answers as for an
	// unknown grant.
	fx, err := h.Immediate(recallMessage(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Returns: returnedMessages(7, 3)}, fx)
}

// renew adds to LeaseWord at one time, and receives the response at another.
func renew(t *testing.T, h *Holder, at, answered time.Duration) {
	t.Helper()
	var op Op
	require.True(t, h.Renew(&op, at))
	v, fx := h.Answered(&op, 0, answered)
	assert.Equal(t, Doubt, v)
	assert.Empty(t, fx)
}

// TestRenewal checks rule f: trust begins when the add was sent. After the
// lease was in doubt, each delegation needs an atomic operation posted after
// the add that restores trust.
func TestRenewal(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 7, 3, 0)
	due, _ := h.RenewDue()
	assert.Equal(t, lease/3, due)
	var op Op
	assert.False(t, h.Renew(&op, due-1))
	renew(t, h, due, trustTime(lease)-1)
	assert.True(t, h.Trusts(d, due+trustTime(lease)-1))
	assert.False(t, h.Trusts(d, due+trustTime(lease)))

	var asked, renewal Op
	a, _ := h.BeginAcquire(&asked, due+trustTime(lease))
	require.False(t, h.Renew(&renewal, due+trustTime(lease)), "Ask did")
	h.Answered(&asked, 0, due+trustTime(lease))
	assert.False(t, h.Trusts(d, due+trustTime(lease)), "the server may have ended it")
	require.Equal(t, Post, h.Open(d, &op, due+trustTime(lease)))
	assert.Equal(t, OpValidate, op.Kind)
	v, _ := h.Answered(&op, uint64(makeWord(3, 1)), due+trustTime(lease))
	assert.Equal(t, Serve, v)
	assert.True(t, h.Trusts(d, due+trustTime(lease)))

	// A grant requested before that add is in doubt too; a later grant is not.
	late := 3 * lease
	renew(t, h, late, late)
	e, _, err := h.Granted(a, grantedRes(8, 1))
	require.NoError(t, err)
	assert.False(t, h.Trusts(e, late))
	assert.True(t, h.Trusts(holdGrant(t, h, 9, 1, late), late))

	// Unanswered adds do not pile up.
	n := 0
	for now := late; now < late+100*lease; now += lease {
		if h.Renew(new(Op), now+lease) {
			n++
		}
	}
	assert.Equal(t, maxRenewals, n)
}

// TestShortestLease checks that the shortest lease received with a grant
// applies.
func TestShortestLease(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 7, 3, 0)
	var op Op
	a, _ := h.BeginAcquire(&op, 0)
	res := grantedRes(8, 1)
	res.LeaseMS = 1000
	_, _, err := h.Granted(a, res)
	require.NoError(t, err)
	assert.True(t, h.Trusts(d, trustTime(time.Second)-1))
	assert.False(t, h.Trusts(d, trustTime(time.Second)))
}

// TestForget checks that a forgotten delegation causes no renewals, and that a
// recalled grant is returned when the operations on the slot are complete.
func TestForget(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 7, 3, 0)
	assert.Empty(t, h.Forget(d))
	assert.True(t, isUsable(h, d), "it is in use")
	var shut Op
	require.True(t, h.Close(d, &shut, 0))
	assert.Empty(t, h.Forget(d))
	assert.False(t, isUsable(h, d))
	assert.Empty(t, h.Forget(d))
	_, due := h.RenewDue()
	assert.False(t, due)
	fx, err := h.Immediate(recallMessage(7, 3)) // sent before the Close arrived
	require.NoError(t, err)
	assert.Empty(t, fx)
	_, fx = h.Answered(&shut, uint64(makeWord(4, 1)), 0)
	assert.Equal(t, Posts{Returns: returnedMessages(7, 3)}, fx)
	assert.Empty(t, h.slots)

	// A delegation that is being opened is not forgotten either.
	d = holdGrant(t, h, 7, 5, 0)
	require.True(t, h.Close(d, &shut, 0))
	h.Answered(&shut, uint64(makeWord(5, 1)), 0)
	var open Op
	require.Equal(t, Post, h.Open(d, &open, 0))
	assert.Empty(t, h.Forget(d))
	assert.True(t, isUsable(h, d))
}
