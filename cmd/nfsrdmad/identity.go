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
// a certain directory. All past identities of exports are kept: if a disk is mounted late, the
// empty mount point is another directory for a while.
type exportIdentity struct {
	Export string `json:"export"`
	Root   string `json:"root"` // posix.FS.RootID, in hexadecimal
	ID     uint32 `json:"id"`

	// Automount means that only an automount needs the entry, while its file system is not mounted.
	Automount bool `json:"automount,omitempty"`
}

func newIdentity(path string, root []byte) exportIdentity {
	return exportIdentity{Export: recordedPath(path), Root: hex.EncodeToString(root), ID: hash32([]byte(path))}
}

func (i *exportIdentity) isOfSameRoot(other exportIdentity) bool {
	return i.Export == other.Export && i.Root == other.Root
}

// assignIdentity returns and records the ID for an export whose path leads to the directory
// root. The first directory at a path gets the path's own ID, and so does every directory
// that the file system cannot identify (root is nil).
func (s *stateDir) assignIdentity(path string, root []byte) (uint32, error) {
	next := newIdentity(path, root)
	if root == nil {
		return next.ID, nil
	}
	list, err := s.readIdentities()
	if err != nil {
		return 0, err
	}
	last := lastOfPath(list, next.Export)
	switch at := slices.IndexFunc(list, next.isOfSameRoot); {
	case at >= 0 && at == last && !list[at].Automount:
		return list[at].ID, nil
	case at >= 0:
		next.ID = list[at].ID
		list = slices.Delete(list, at, at+1)
	case last >= 0:
		next.ID = unusedID(list, path, root)
	}
	return next.ID, s.writeIdentities(append(list, next))
}

// identifySubmount returns the ID for a submount whose root directory is root: the recorded one, or
// one that depends on path and root alone. The latter needs no record, so that the record does not
// grow with each mount; another directory at the path never gets it.
func (s *stateDir) identifySubmount(path string, root []byte) (uint32, error) {
	own := newIdentity(path, root)
	if root == nil {
		return own.ID, nil
	}
	list, err := s.readIdentities()
	if err != nil {
		return 0, err
	}
	if at := slices.IndexFunc(list, own.isOfSameRoot); at >= 0 {
		return list[at].ID, nil
	}
	return unusedID(append(list, own), path, root), nil
}

// assignAutomountIdentity is identifySubmount for a file system that an automount has mounted, and
// records the ID for the time when it is not mounted. It removes the records of automounts that are
// not there any more.
func (s *stateDir) assignAutomountIdentity(path string, root []byte, isThere func(recordedPath string) bool) (uint32, error) {
	id, err := s.identifySubmount(path, root)
	if err != nil || root == nil {
		return id, err
	}
	list, err := s.readIdentities()
	if err != nil {
		return 0, err
	}
	next := newIdentity(path, root)
	next.ID, next.Automount = id, true
	if last := lastOfPath(list, next.Export); last >= 0 && list[last].isOfSameRoot(next) {
		return id, nil
	}
	if at := slices.IndexFunc(list, next.isOfSameRoot); at >= 0 {
		next.Automount = list[at].Automount
		list = slices.Delete(list, at, at+1)
	}
	list = slices.DeleteFunc(list, func(i exportIdentity) bool {
		return i.Automount && (i.Export == next.Export || !isThere(i.Export))
	})
	return id, s.writeIdentities(append(list, next))
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
	list, _ := s.readIdentities() // the exports with an error report it
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

func (s *stateDir) identitiesFile() string { return filepath.Join(s.dir, "identities") }

func (s *stateDir) readIdentities() (list []exportIdentity, err error) {
	name := s.identitiesFile()
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

func (s *stateDir) writeIdentities(list []exportIdentity) error {
	b, err := json.MarshalIndent(list, "", "\t")
	if err == nil {
		err = s.replaceFile(s.identitiesFile(), append(b, '\n'))
	}
	if err != nil {
		return stateError(s.dir, err)
	}
	return nil
}

// hash32 is 32-bit FNV-1a. nfsserver uses the same hash of a path as its ID.
func hash32(b []byte) uint32 {
	h := fnv.New32a()
	h.Write(b) // never fails
	return h.Sum32()
}
