package main

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// An objectInfo is the output of ls --json and stat --json for one object, which scripts
// depend on.
type objectInfo struct {
	URL    string  `json:"url"`
	Name   string  `json:"name"`
	Type   string  `json:"type,omitempty"`
	Mode   string  `json:"mode,omitempty"` // octal
	Nlink  *uint32 `json:"nlink,omitempty"`
	UID    *uint32 `json:"uid,omitempty"`
	GID    *uint32 `json:"gid,omitempty"`
	Size   *uint64 `json:"size,omitempty"` // bytes
	Used   *uint64 `json:"used,omitempty"` // bytes
	FSID   *uint64 `json:"fsid,omitempty"`
	FileID *uint64 `json:"fileid,omitempty"`
	Atime  string  `json:"atime,omitempty"` // RFC 3339
	Mtime  string  `json:"mtime,omitempty"`
	Ctime  string  `json:"ctime,omitempty"`
	Target string  `json:"target,omitempty"`
}

// jsonTypes are the types in JSON.
var jsonTypes = map[nfs3.Type]string{
	nfs3.TypeReg: "file", nfs3.TypeDir: "directory", nfs3.TypeLnk: "symlink", nfs3.TypeBlk: "block",
	nfs3.TypeChr: "character", nfs3.TypeSock: "socket", nfs3.TypeFIFO: "fifo",
}

// newObjectInfo returns the output for an object. It has only names if the server sent no
// attributes.
func newObjectInfo(l location, name string, m *lsDetails) *objectInfo {
	info := &objectInfo{URL: l.String(), Name: name, Target: m.target}
	if !m.hasAttr {
		return info
	}
	a := &m.attr
	info.Type, info.Mode = jsonTypes[a.Type], fmt.Sprintf("%04o", a.Mode&0o7777)
	info.Nlink, info.UID, info.GID = &a.Nlink, &a.UID, &a.GID
	info.Size, info.Used, info.FSID, info.FileID = &a.Size, &a.Used, &a.FSID, &a.FileID
	info.Atime, info.Mtime, info.Ctime = formatTime(a.Atime), formatTime(a.Mtime), formatTime(a.Ctime)
	return info
}
