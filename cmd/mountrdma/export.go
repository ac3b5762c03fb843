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

// openExport finds the export that contains a URL's path: the longest listed export that
// the server lets us mount, otherwise the longest unlisted directory that it lets us mount.
// rest is the remainder of the path, "" for the export's root.
func (s *session) openExport(ctx context.Context, path string) (fs *nfsclient.FS, rest string, err error) {
	if err := s.listExports(ctx); err != nil {
		return nil, "", err
	}
	var refused *nfsclient.MountError
	for _, export := range s.exportCandidates(path) {
		fs, err := s.mountExport(ctx, export)
		switch {
		case err == nil:
			return fs, strings.TrimPrefix(strings.TrimPrefix(path, export), "/"), nil
		case !errors.As(err, &refused):
			return nil, "", mountError(ctx, s.serverAddr(), err)
		}
	}
	return nil, "", s.noExportError(path, refused)
}

// listExports requests the list of exports once. If the server refuses to list its exports,
// the list is empty.
func (s *session) listExports(ctx context.Context) error {
	if s.hasExports {
		return nil
	}
	if _, err := s.mountServiceAddr(ctx); err != nil {
		return err
	}
	list, err := s.client.Exports(ctx)
	if lost := fatalError(ctx, unwrapOnce(err)); lost != nil {
		return lost
	}
	s.exports, s.hasExports, s.exportsErr = list, true, err
	s.listed = make(map[string]bool, len(list))
	for _, e := range list {
		s.listed[cleanPath(e.Path)] = true
	}
	return nil
}

// exportCandidates returns the prefixes of the path that may be exports: the listed exports,
// then all others, the longest first in each group.
func (s *session) exportCandidates(path string) []string {
	var known, others []string
	for p := path; ; p = parentDir(p) {
		switch {
		case s.listed[p]:
			known = append(known, p)
		case len(p) <= mount3.PathLen && len(others) < maxGuesses:
			others = append(others, p)
		}
		if p == "/" {
			return append(known, others...)
		}
	}
}

// parentDir returns the path without its last name.
func parentDir(path string) string {
	return cleanPath(path[:strings.LastIndexByte(path, '/')+1])
}

func (s *session) mountExport(ctx context.Context, export string) (*nfsclient.FS, error) {
	if fs := s.mounted[export]; fs != nil {
		return fs, nil
	}
	fs, err := s.client.Mount(ctx, export)
	if err != nil {
		return nil, unwrapOnce(err)
	}
	s.mounted[export] = fs
	return fs, nil
}

// mountDir mounts an export, or a directory below one. The server resolves the path, because
// we may not be allowed to search the parent directories.
func (s *session) mountDir(ctx context.Context, path string) (*nfsclient.FS, error) {
	fs, err := s.mountExport(ctx, path)
	refused, ok := errors.AsType[*nfsclient.MountError](err)
	switch {
	case err == nil:
		return fs, nil
	case !ok:
		return nil, mountError(ctx, s.serverAddr(), err)
	}
	if err := s.listExports(ctx); err != nil {
		return nil, err
	}
	export, ok := s.findExport(path)
	if ok && (refused.Status == mount3.ErrNoEnt || refused.Status == mount3.ErrNotDir) {
		return nil, &stepError{
			at: s.serverAddr(), step: "MOUNT", err: err,
			what: fmt.Sprintf("the export %s has no directory %s", escapePath(export), escapePath(path)), remedy: "correct the path, or create the directory there",
		}
	}
	return nil, s.noExportError(path, refused)
}

// findExport returns the listed export that contains path.
func (s *session) findExport(path string) (export string, ok bool) {
	for p := path; ; p = parentDir(p) {
		if s.listed[p] || p == "/" {
			return p, s.listed[p]
		}
	}
}

// noExportError returns the error for a path that is in no export that we may mount.
func (s *session) noExportError(path string, refused *nfsclient.MountError) error {
	var has []string
	for _, e := range s.exports {
		has = append(has, escapePath(e.Path))
	}
	slices.Sort(has)
	e := &stepError{at: s.serverAddr(), step: "MOUNT"}
	if refused != nil { // avoid a nil *MountError in an interface
		e.err = refused
	}
	_, held := s.findExport(path)
	switch {
	case held:
		e.what = "the server does not let this host or user mount the export of " + escapePath(path)
		e.remedy = "ask its administrator to export it to this host (nfsrdmad: --clients)"
		if s.target.tcp && !isRoot() { // an ordinary user cannot connect from a reserved port
			e.remedy += ", for ordinary users with the option insecure"
		}
	case len(has) == 0:
		e.what = "no export holds " + escapePath(path) + ", and the server lists none"
		e.remedy = "correct the path, or export a directory there"
	default:
		e.what = "no export holds " + escapePath(path)
		e.remedy = "correct the path: the server exports " + strings.Join(has[:min(len(has), maxNamed)], ", ")
	}
	return e
}
