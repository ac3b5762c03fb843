package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// An exportIdentity records the ID that an export has in file handles while its path leads to
// a certain directory. All past identities are kept: if a disk is mounted late, the empty
// mount point is another directory for a while.
type exportIdentity struct {
	Export string `json:"export"`
	Root   string `json:"root"` // posix.FS.RootID, in hexadecimal
	ID     uint32 `json:"id"`
}

// assignIdentity returns and records the ID for an export whose path leads to the directory
// root. The first directory at a path gets the path's own ID, and so does every directory
// that the file system cannot identify (root is nil).
func (s *stateDir) assignIdentity(path string, root []byte) (uint32, error) {
	own := hash32([]byte(path))
	if root == nil {
		return own, nil
	}
	name := filepath.Join(s.dir, "identities")
	list, err := readIdentities(name)
	if err != nil {
		return 0, err
	}
	next := exportIdentity{recordedPath(path), hex.EncodeToString(root), own}
	last := lastOfPath(list, next.Export)
	same := func(i exportIdentity) bool { return i.Export == next.Export && i.Root == next.Root }
	switch at := slices.IndexFunc(list, same); {
	case at >= 0 && at == last:
		return list[at].ID, nil
	case at >= 0:
		next = list[at]
		list = slices.Delete(list, at, at+1)
	case last >= 0:
		next.ID = unusedID(list, path, root)
	}
	b, err := json.MarshalIndent(append(list, next), "", "\t")
	if err == nil {
		err = s.replaceFile(name, append(b, '\n'))
	}
	if err != nil {
		return 0, stateError(s.dir, err)
	}
	return next.ID, nil
}

// recordedPath returns an export's path as JSON can record it: quoted if it is not valid UTF-8.
func recordedPath(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return strconv.Quote(path)
}

// unusedID returns an ID that no identity in list has, for another directory at a path.
func unusedID(list []exportIdentity, path string, root []byte) uint32 {
	taken := map[uint32]bool{0: true}
	for _, i := range list {
		taken[i.ID] = true
	}
	id := hash32([]byte(path))
	for n := uint32(0); taken[id]; n++ {
		id = hash32(binary.BigEndian.AppendUint32(append([]byte(path+"\x00"), root...), n))
	}
	return id
}

// lastIDs returns the ID with which each export was served last, by recordedPath.
func (s *stateDir) lastIDs() map[string]uint32 {
	list, _ := readIdentities(filepath.Join(s.dir, "identities")) // the exports with an error report it
	ids := make(map[string]uint32)
	for _, i := range list {
		ids[i.Export] = i.ID
	}
	return ids
}

// lastOfPath returns the index of the last identity of an export, or -1.
func lastOfPath(list []exportIdentity, path string) int {
	for at, i := range slices.Backward(list) {
		if i.Export == path {
			return at
		}
	}
	return -1
}

func readIdentities(name string) (list []exportIdentity, err error) {
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil:
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s, the record of exported directories: %w: restore a backup or delete it; clients of exports whose directory changed must then remount", name, cli.Cause(err))
	}
	return list, nil
}

// hash32 is 32-bit FNV-1a. nfsserver uses the same hash of a path as its ID.
func hash32(b []byte) uint32 {
	h := fnv.New32a()
	h.Write(b) // never fails
	return h.Sum32()
}
