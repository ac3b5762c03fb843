package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// open finds the export that contains a URL's path: the longest listed export
// that the server lets us mount, otherwise the longest unlisted directory that
// it lets us mount. rest is the remainder of the path, "" for the export's
// root.
func (s *session) open(ctx context.Context, path string) (fs *nfsclient.FS, rest string, err error) {
	if err := s.list(ctx); err != nil {
		return nil, "", err
	}
	var refused *nfsclient.MountError
	for _, export := range s.candidates(path) {
		fs, err := s.mountExport(ctx, export)
		switch {
		case err == nil:
			return fs, strings.TrimPrefix(strings.TrimPrefix(path, export), "/"), nil
		case !errors.As(err, &refused):
			return nil, "", mountError(ctx, s.at.addr(), err)
		}
	}
	return nil, "", s.noExport(path, refused)
}

// list asks for the exports once. If the server refuses to list its exports,
// the list is empty.
func (s *session) list(ctx context.Context) error {
	if s.listed {
		return nil
	}
	if _, err := s.mountAt(ctx); err != nil {
		return err
	}
	list, err := s.client.Exports(ctx)
	if lost := lost(ctx, bare(err)); lost != nil {
		return lost
	}
	s.exports, s.listed, s.unlisted = list, true, err
	return nil
}

// candidates returns the directories of the path that may be exports: the
// listed exports, then all others, the longest first in each group.
func (s *session) candidates(path string) []string {
	listed := make(map[string]bool)
	for _, e := range s.exports {
		listed[clean(e.Path)] = true
	}
	var known, others []string
	for p := path; ; p = parent(p) {
		switch {
		case listed[p]:
			known = append(known, p)
		case len(p) <= mount3.PathLen && len(others) < maxGuesses:
			others = append(others, p)
		}
		if p == "/" {
			return append(known, others...)
		}
	}
}

// parent returns the path without its last name.
func parent(path string) string {
	return clean(path[:strings.LastIndexByte(path, '/')+1])
}

func (s *session) mountExport(ctx context.Context, export string) (*nfsclient.FS, error) {
	if fs := s.mounted[export]; fs != nil {
		return fs, nil
	}
	fs, err := s.client.Mount(ctx, export)
	if err != nil {
		return nil, bare(err)
	}
	s.mounted[export] = fs
	return fs, nil
}

// mountDir mounts a directory: an export, or a directory below an export, to
// which the server itself finds the way. Its parents may be closed to us.
func (s *session) mountDir(ctx context.Context, path string) (*nfsclient.FS, error) {
	fs, err := s.mountExport(ctx, path)
	refused, ok := errors.AsType[*nfsclient.MountError](err)
	switch {
	case err == nil:
		return fs, nil
	case !ok:
		return nil, mountError(ctx, s.at.addr(), err)
	}
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	export, ok := s.exportOf(path)
	if ok && (refused.Status == mount3.ErrNoEnt || refused.Status == mount3.ErrNotDir) {
		return nil, &stepError{
			at: s.at.addr(), step: "MOUNT", err: err,
			what: fmt.Sprintf("the export %s has no directory %s", escape(export), escape(path)), remedy: "correct the path, or create the directory there",
		}
	}
	return nil, s.noExport(path, refused)
}

// exportOf returns a listed export that contains path.
func (s *session) exportOf(path string) (export string, ok bool) {
	for _, e := range s.exports {
		if export := clean(e.Path); inside(path, export) {
			return export, true
		}
	}
	return "", false
}

// noExport returns the error for a path that lies in no export that we may
// mount.
func (s *session) noExport(path string, refused *nfsclient.MountError) error {
	var has []string
	for _, e := range s.exports {
		has = append(has, escape(e.Path))
	}
	slices.Sort(has)
	e := &stepError{at: s.at.addr(), step: "MOUNT"}
	if refused != nil { // avoids a nil *MountError in an interface
		e.err = refused
	}
	_, held := s.exportOf(path)
	switch {
	case held:
		e.what = "the server does not let this host or user mount the export of " + escape(path)
		e.remedy = "ask its administrator to export it to this host (nfsrdmad: --clients)"
		if s.at.tcp && !isRoot() { // who has no reserved port to connect from
			e.remedy += ", for ordinary users with the option insecure"
		}
	case len(has) == 0:
		e.what = "no export holds " + escape(path) + ", and the server lists none"
		e.remedy = "correct the path, or export a directory there"
	default:
		e.what = "no export holds " + escape(path)
		e.remedy = "correct the path: the server exports " + strings.Join(has[:min(len(has), maxNamed)], ", ")
	}
	return e
}

// inside reports whether path is dir or lies below dir.
func inside(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}
