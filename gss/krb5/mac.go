package krb5

import (
	"crypto/subtle"
	"encoding"
	"hash"
	"sync"
)

// A hashPool lends hashes of one kind. All contexts share it, so an idle context
// keeps no hash.
type hashPool struct {
	create func() hash.Hash
	pool   sync.Pool
}

// A hashState is a lent hash, with room for its result.
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

// A macKey makes truncated HMACs (RFC 2104). It is the key's two saved states of
// the hash, after the inner and the outer pad, so that a short message costs no
// block of pads.
type macKey struct {
	hashes       *hashPool
	inner, outer []byte
	size         int // of a MAC, in bytes
}

func newMACKey(p *profile, key []byte) macKey {
	return macKey{p.hashes, padded(p, key, 0x36), padded(p, key, 0x5c), p.macSize}
}

// padded returns the state of a hash that has read the key with its pad. No key
// is longer than a block.
func padded(p *profile, key []byte, pad byte) []byte {
	h := p.hashes.create()
	block := make([]byte, h.BlockSize())
	copy(block, key)
	for i := range block {
		block[i] ^= pad
	}
	h.Write(block)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // the hashes of the standard library can save their states
	}
	return state
}

// begin lends a hash for a message. The caller writes the message to it, and
// gives it back by appendSum or verify.
func (k *macKey) begin() *hashState {
	h := k.hashes.get()
	h.restore(k.inner)
	return h
}

func (h *hashState) restore(state []byte) {
	if err := h.resume.UnmarshalBinary(state); err != nil {
		panic(err) // padded made the state
	}
}

// writeAll writes a scattered message.
func (h *hashState) writeAll(message [][]byte) {
	for _, s := range message {
		h.Write(s)
	}
}

// finish leaves the HMAC in h.sum.
func (k *macKey) finish(h *hashState) []byte {
	inner := h.Sum(h.sum[:0])
	h.restore(k.outer)
	h.Write(inner)
	return h.Sum(h.sum[:0])[:k.size]
}

// appendSum appends the MAC to dst.
func (k *macKey) appendSum(dst []byte, h *hashState) []byte {
	dst = append(dst, k.finish(h)...)
	k.hashes.pool.Put(h)
	return dst
}

// verify compares the MAC with mac, in a time that does not depend on either.
func (k *macKey) verify(h *hashState, mac []byte) bool {
	ok := subtle.ConstantTimeCompare(k.finish(h), mac) == 1
	k.hashes.pool.Put(h)
	return ok
}
