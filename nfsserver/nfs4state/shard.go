package nfs4state

import "hash/maphash"

// fileShards is the number of shards of the table of files. Calls for different files rarely
// use the same one.
const fileShards = 1024

// A fileShard has the files of the objects whose keys have the same hash. A call changes or
// reads a file while it holds a part of the State and the shard's mutex, or State.mu.
type fileShard struct {
	mu        checkedMutex[shardRank]
	part      uint8 // of the State, for lockShard
	files     map[string]*file
	hostFiles map[string]*hostFile
	spare     modeCounts // empty maps of a removed file, for the next one
}

// maxSpareHolders bounds the size of a fileShard's spare maps: a map keeps the memory of the
// entries that it has had.
const maxSpareHolders = 8

// newFileShards creates the shards.
func newFileShards() []fileShard {
	shards := make([]fileShard, fileShards)
	for i := range shards {
		shards[i].part = uint8(i % stateParts)
	}
	return shards
}

// shardOf returns the shard with an object's file.
func (s *State) shardOf(key string) *fileShard {
	return &s.shards[s.shardIndex(key)]
}

func (s *State) shardIndex(key string) int { return int(maphash.String(s.seed, key) % fileShards) }

// fileOf returns an object's file, or nil. The caller has locked its shard or State.mu.
func (s *State) fileOf(key string) *file { return s.shardOf(key).files[key] }

// newFile creates an object's file.
func (sh *fileShard) newFile(key string) *file {
	f := &file{key: key, shard: sh, modeCounts: sh.spare}
	sh.spare = modeCounts{}
	if sh.files == nil {
		sh.files = make(map[string]*file)
	}
	sh.files[key] = f
	return f
}

// removeIfUnused removes a file that nobody uses from its shard.
func (f *file) removeIfUnused() {
	if len(f.opens) == 0 && len(f.machines) == 0 && len(f.delegations) == 0 {
		delete(f.shard.files, f.key)
		if !f.manyHolders {
			f.shard.spare, f.modeCounts = f.modeCounts, modeCounts{}
		}
	}
}
