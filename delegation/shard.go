package delegation

import (
	"hash/maphash"
	"sync/atomic"
)

// shards is how many tallies the objects are divided among.
const shards = 256

// A tally counts two things, for the objects whose keys hash to its shard: in
// the low half the changes that run unnoticed by the Grantor, and in the high
// half the objects known to the Grantor. The begin of a change and the
// registration of an object both add to the same word, so the later of the two
// sees the earlier.
type tally struct{ n atomic.Uint64 }

const known = 1 << 32

// begin counts a change, if no object is known, and reports whether it did.
func (t *tally) begin() bool {
	if t.n.Load() >= known {
		return false
	}
	if t.n.Add(1) < known {
		return true
	}
	t.end() // an object has just become known
	return false
}

// end subtracts a change.
func (t *tally) end() { t.n.Add(^uint64(0)) }

// busy reports whether changes unnoticed by the Grantor may be under way.
func (t *tally) busy() bool { return t.n.Load()%known > 0 }

func (t *tally) know()   { t.n.Add(known) }
func (t *tally) forget() { t.n.Add(^uint64(known - 1)) }

func (g *Grantor) shard(key []byte) uint8 { return uint8(maphash.Bytes(g.seed, key) % shards) }

// object returns the object with the given key, known from now on.
func (g *Grantor) object(key []byte) *object {
	o := g.objects[string(key)]
	if o == nil {
		o = &object{key: string(key), shard: g.shard(key)}
		g.objects[o.key] = o
		g.shards[o.shard].know()
		g.all.know()
	}
	return o
}

// forget drops o if no state of o is left.
func (g *Grantor) forget(o *object) {
	if len(o.grants) == 0 && len(o.asked) == 0 && o.changes == 0 && o.until == 0 && g.objects[o.key] == o {
		delete(g.objects, o.key)
		g.shards[o.shard].forget()
		g.all.forget()
	}
}
