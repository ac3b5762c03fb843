package delegation

import (
	"hash/maphash"
	"sync/atomic"
)

// shardCount is the number of shards that objects are divided among.
const shardCount = 256

// A shardTally has two counts for the objects whose keys hash to its shard: the
// low half counts running changes that the Grantor has not recorded, and the
// high half counts objects that the Grantor knows. A starting change and a new
// object both add to the same word, so the later of the two sees the earlier.
type shardTally struct{ counts atomic.Uint64 }

const objectUnit = 1 << 32

// beginChange counts a change if no object is known, and reports whether it
// did.
func (t *shardTally) beginChange() bool {
	if t.counts.Load() >= objectUnit {
		return false
	}
	if t.counts.Add(1) < objectUnit {
		return true
	}
	t.endChange() // an object has just been added
	return false
}

// endChange subtracts a change.
func (t *shardTally) endChange() { t.counts.Add(^uint64(0)) }

// isBusy reports whether changes that the Grantor has not recorded may be in
// progress.
func (t *shardTally) isBusy() bool { return t.counts.Load()%objectUnit > 0 }

func (t *shardTally) addObject()    { t.counts.Add(objectUnit) }
func (t *shardTally) removeObject() { t.counts.Add(^uint64(objectUnit - 1)) }

func (g *Grantor) shardOf(key []byte) uint8 { return uint8(maphash.Bytes(g.seed, key) % shardCount) }

// getObject returns the object with the given key, and adds it if it is not
// known.
func (g *Grantor) getObject(key []byte) *object {
	o := g.objects[string(key)]
	if o == nil {
		o = &object{key: string(key), shard: g.shardOf(key)}
		g.objects[o.key] = o
		g.shards[o.shard].addObject()
		g.total.addObject()
	}
	return o
}

// forgetObject removes o if it has no state left.
func (g *Grantor) forgetObject(o *object) {
	if len(o.grants) == 0 && len(o.acquisitions) == 0 && o.changeCount == 0 && o.contendedUntil == 0 && g.objects[o.key] == o {
		delete(g.objects, o.key)
		g.shards[o.shard].removeObject()
		g.total.removeObject()
	}
}
