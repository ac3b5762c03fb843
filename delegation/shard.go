package delegation

import (
	"hash/maphash"
	"sync/atomic"
)

// shards is how many tallies the objects are spread over.
const shards = 256

// A tally counts the changes that run without anybody's notice, of the objects whose
// names hash to its shard, and above that the objects there that the Grantor knows. A
// change that begins and an object that becomes known are two additions to one word:
// whichever comes second sees the other.
type tally struct{ n atomic.Uint64 }

const known = 1 << 32

// begin counts a change, if no object is known, and tells whether that is so.
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

// end uncounts a change.
func (t *tally) end() { t.n.Add(^uint64(0)) }

// busy tells whether a change may be under way that nobody knows of.
func (t *tally) busy() bool { return t.n.Load()%known > 0 }

func (t *tally) know()   { t.n.Add(known) }
func (t *tally) forget() { t.n.Add(^uint64(known - 1)) }

func (g *Grantor) shard(key []byte) uint8 { return uint8(maphash.Bytes(g.seed, key) % shards) }

// object returns the object of that name, known from now on.
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

// forget drops o if nothing is left of it.
func (g *Grantor) forget(o *object) {
	if len(o.grants) == 0 && len(o.asked) == 0 && o.changes == 0 && o.until == 0 && g.objects[o.key] == o {
		delete(g.objects, o.key)
		g.shards[o.shard].forget()
		g.all.forget()
	}
}
