package krb5

import (
	"crypto/subtle"
	"encoding"
	"hash"
	"sync"
)

// A hashPool lends hashes with one algorithm. All contexts share it, so an idle context
// keeps no hash.
type hashPool struct {
	create func() hash.Hash
	pool   sync.Pool
}

// A hashState is a pooled hash, with space for its result.
type hashState struct {
	hash.Hash
	resume encoding.BinaryUnmarshaler // the same hash
	sum    [64]byte
}

func (p *hashPool) get() *hashState {
	if h, ok := p.pool.Get().(*hashState); ok {
		return h
	}
	h := p.create()
	return &hashState{Hash: h, resume: h.(encoding.BinaryUnmarshaler)}
}

// A macKey computes truncated HMACs (RFC 2104). It has the two hash states after the
// key's inner and outer pad, so that a short message need not hash the pads.
type macKey struct {
	hashes       *hashPool
	inner, outer []byte
	size         int // MAC size in bytes
}

func newMACKey(p *profile, key []byte) macKey {
	return macKey{p.hashes, padState(p, key, 0x36), padState(p, key, 0x5c), p.macSize}
}

// padState returns a hash state after the padded key. No key is longer than a block.
func padState(p *profile, key []byte, pad byte) []byte {
	h := p.hashes.create()
	block := make([]byte, h.BlockSize())
	copy(block, key)
	for i := range block {
		block[i] ^= pad
	}
	h.Write(block)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // standard library hashes can save their states
	}
	return state
}

// getHash returns a pooled hash for a message. The caller writes the message to it, and
// returns it with appendSum or verify.
func (k *macKey) getHash() *hashState {
	h := k.hashes.get()
	h.restoreState(k.inner)
	return h
}

func (h *hashState) restoreState(state []byte) {
	if err := h.resume.UnmarshalBinary(state); err != nil {
		panic(err) // padState made the state
	}
}

// writeAll writes a scattered message.
func (h *hashState) writeAll(message [][]byte) {
	for _, s := range message {
		h.Write(s)
	}
}

// computeMAC computes the HMAC in h.sum.
func (k *macKey) computeMAC(h *hashState) []byte {
	inner := h.Sum(h.sum[:0])
	h.restoreState(k.outer)
	h.Write(inner)
	return h.Sum(h.sum[:0])[:k.size]
}

// appendSum appends the MAC to dst.
func (k *macKey) appendSum(dst []byte, h *hashState) []byte {
	dst = append(dst, k.computeMAC(h)...)
	k.hashes.pool.Put(h)
	return dst
}

// verifySum compares the MAC with mac, in a time that does not depend on either.
func (k *macKey) verifySum(h *hashState, mac []byte) bool {
	ok := subtle.ConstantTimeCompare(k.computeMAC(h), mac) == 1
	k.hashes.pool.Put(h)
	return ok
}
