package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// The shell waits for completions: a server that does not respond soon contributes none.
const (
	completeTime  = 2 * time.Second
	completeNames = 1000 // names from one directory
)

// completeOptions returns the lists of options that begin with list.
func (a *app) completeOptions(_ *cobra.Command, _ []string, list string) ([]string, cobra.ShellCompDirective) {
	head := list[:strings.LastIndexByte(list, ',')+1]
	var words []string
	for _, w := range a.mountOptions().Words() {
		if w = head + w; strings.HasPrefix(w, list) {
			words = append(words, w)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeMount completes SERVER:/EXPORT or a URL, and then a mount point. It uses the
// options that precede them.
func (m *mountCommand) completeMount(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 1:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case strings.HasPrefix(word, scheme):
		return m.completeURL(cmd, args, word)
	}
	err := m.parseOptions()
	if err == nil {
		m.at, err = parseURL(word, m.overTCP())
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	m.applyOptions()
	host := word[:strings.Index(word, ":/")+1]
	var words []string
	m.completeWith(cmd, m.at.server, func(_ context.Context, s *session) {
		for _, e := range s.exports {
			if w := host + e.Path; strings.HasPrefix(w, word) {
				words = append(words, w)
			}
		}
	})
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeMountPoint completes the mount points of mountrdma's mounts.
func completeMountPoint(_ *cobra.Command, args []string, word string) (words []string, _ cobra.ShellCompDirective) {
	mounts, _ := mountinfo.All() // without them there is nothing to complete
	for _, m := range mounts {
		if m.Kind == fsType && len(args) == 0 && strings.HasPrefix(m.Point, word) {
			words = append(words, m.Point)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeURL completes URLs, including names in directories of exports, and leaves
// other words to the shell, which completes file names.
func (a *app) completeURL(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if !isURL(word) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	host, path, found := strings.Cut(strings.TrimPrefix(word, scheme), "/")
	prefix, escape := scheme+host, escapePath
	if !strings.HasPrefix(word, scheme) {
		prefix, escape = host, func(path string) string { return path }
	}
	dir, err := parseURL(word[:strings.LastIndexByte(word, '/')+1], a.overTCP())
	if !found || err != nil || strings.HasPrefix(word, scheme) && strings.Contains(path, "?") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	add := func(path string) {
		if w := prefix + escape(path); strings.HasPrefix(w, word) {
			words = append(words, w)
		}
	}
	a.completeWith(cmd, dir.server, func(ctx context.Context, s *session) {
		for _, e := range s.exports {
			add(cleanPath(e.Path) + "/")
		}
		if _, ok := s.findExport(dir.path); !ok {
			return
		}
		r, err := a.openURL(ctx, dir)
		if err != nil {
			return
		}
		for e, err := range (&lsOptions{app: a, long: true}).readEntries(ctx, r) {
			if err != nil || len(words) == completeNames {
				return
			}
			slash := ""
			if e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeDir {
				slash = "/"
			}
			add(strings.TrimSuffix(dir.path, "/") + "/" + e.Name + slash)
		}
	})
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeWith connects to a server, lists its exports and calls do. It prints nothing on
// the terminal, where the user is editing a command line.
func (a *app) completeWith(cmd *cobra.Command, srv server, do func(context.Context, *session)) {
	a.stderr = io.Discard
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	if s, err := a.openSession(ctx, srv); err == nil && s.listExports(ctx) == nil {
		do(ctx, s)
	}
}
