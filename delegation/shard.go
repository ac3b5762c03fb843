package delegation

import "hash/maphash"

// shards is how many counts the changes are spread over.
const shards = 256

// A shard counts the changes that run without anybody's notice, of the objects
// whose names hash to it, and above that the objects there that the Grantor knows.
// A change that begins and an object that becomes known are two additions to one
// word: whichever comes second sees the other.
const known = 1 << 32

func (g *Grantor) shard(key []byte) uint8 { return uint8(maphash.Bytes(g.seed, key) % shards) }

// object returns the object of that name, known from now on.
func (g *Grantor) object(key []byte) *object {
	o := g.objects[string(key)]
	if o == nil {
		o = &object{key: string(key), shard: g.shard(key)}
		g.objects[o.key] = o
		g.shards[o.shard].Add(known)
	}
	return o
}

// unnoticed counts a change in its shard, if that has no objects, and tells whether
// it has.
func (g *Grantor) unnoticed(shard uint8) bool {
	s := &g.shards[shard]
	if s.Load() >= known {
		return false
	}
	if s.Add(1) < known {
		return true
	}
	s.Add(^uint64(0)) // less one: an object has just become known
	return false
}

// busy tells whether a change may be under way that o knows nothing of.
func (g *Grantor) busy(o *object) bool { return g.shards[o.shard].Load()%known > 0 }

// forget drops o if nothing is left of it.
func (g *Grantor) forget(o *object) {
	if len(o.grants) == 0 && len(o.asked) == 0 && o.changes == 0 && o.until == 0 && g.objects[o.key] == o {
		delete(g.objects, o.key)
		g.shards[o.shard].Add(^uint64(known - 1)) // less known
	}
}
