package model

import (
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
)

// A Kind is an operation's kind.
type Kind string

// Operation kinds. Stat, Readlink and operations that make, remove or move
// a name do not follow a symbolic link at the end of their path; all others do.
const (
	Create   Kind = "create"   // open(O_CREAT|O_WRONLY), and O_EXCL if Excl; close
	Write    Kind = "write"    // open(O_WRONLY); pwrite; close
	Append   Kind = "append"   // open(O_WRONLY|O_APPEND); write; close
	Rewrite  Kind = "rewrite"  // open(O_CREAT|O_TRUNC|O_WRONLY); write; close
	Read     Kind = "read"     // open(O_RDONLY); pread; close
	Reopen   Kind = "reopen"   // open(O_RDONLY); fstat; pread; close
	Truncate Kind = "truncate" // to Off
	Chmod    Kind = "chmod"
	Utimes   Kind = "utimes" // modification time to Off nanoseconds
	Stat     Kind = "stat"
	Mkdir    Kind = "mkdir"
	Rmdir    Kind = "rmdir"
	Symlink  Kind = "symlink" // to To
	Readlink Kind = "readlink"
	Link     Kind = "link"   // link Path as To
	Rename   Kind = "rename" // rename Path to To
	Unlink   Kind = "unlink"
	List     Kind = "list"
)

// An Op is one operation.
type Op struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"` // below the directory, never empty, without . and ..
	To   string `json:"to,omitempty"`
	Excl bool   `json:"excl,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
	Off  int64  `json:"off,omitempty"`
	Len  int    `json:"len,omitempty"`  // bytes to write or read
	Data uint64 `json:"data,omitempty"` // seed for the written bytes
}

// isChange reports whether the operation can change anything.
func (o Op) isChange() bool {
	switch o.Kind {
	case Read, Reopen, Stat, Readlink, List:
		return false
	default:
		return true
	}
}

func (o Op) String() string {
	b, _ := json.Marshal(o) // strings and numbers
	return string(b)
}

// writtenBytes returns the bytes that an operation writes.
func (o Op) writtenBytes() []byte {
	b := make([]byte, o.Len)
	r := rand.NewPCG(o.Data, 0)
	for i := 0; i < len(b); i += 8 {
		v := r.Uint64()
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(v)
			v >>= 8
		}
	}
	return b
}

// A Result is an operation's result. Only its kind's fields are set.
type Result struct {
	Err   string   `json:"err,omitempty"` // the errno's name
	Attr  *Attr    `json:"attr,omitempty"`
	Text  string   `json:"text,omitempty"` // a link's target
	Len   int      `json:"len,omitempty"`  // bytes read
	Sum   uint32   `json:"sum,omitempty"`  // and their checksum
	Names []string `json:"names,omitempty"`

	Or string `json:"-"` // another acceptable error, or ""
}

func (r Result) String() string {
	b, _ := json.Marshal(r)
	return string(b)
}

// Attr are the attributes that all mounts show equally.
type Attr struct {
	Type  string `json:"type"` // file, dir or link
	Mode  uint32 `json:"mode"`
	Nlink int    `json:"nlink"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Size  int64  `json:"size"`            // 0 for a directory
	Mtime int64  `json:"mtime,omitempty"` // nanoseconds; 0 if the model cannot know it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readResult returns the result for reading b.
func readResult(b []byte) Result { return Result{Len: len(b), Sum: crc32.Checksum(b, castagnoli)} }
