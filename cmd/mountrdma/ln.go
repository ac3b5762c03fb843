package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) newLn() *cobra.Command {
	var symbolic bool
	var target string
	var urls []location
	cmd := &cobra.Command{
		Use:   "ln URL URL | ln -s TARGET URL",
		Short: "Create hard and symbolic links",
		Long: `Create another name for a file, or with -s a symbolic link whose text is TARGET,
which need not exist. If the last URL is a directory, the link is created in it, with
the last name of its target. Both names of a hard link must be in one export. An
existing name is an error.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return errors.New("ln needs a target and a URL: ln URL URL, or ln -s TARGET URL")
			}
			if symbolic {
				if target = args[0]; isURL(target) {
					return errors.New("a symbolic link leads to a path, not to a URL: write the path as clients see it")
				}
				args = args[1:]
			}
			return a.parseURLs(&urls)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			to, isDir, err := a.openDestination(ctx, urls[len(urls)-1])
			if err != nil {
				return err
			}
			if symbolic {
				to = to.entryFor(location{path: cleanPath(target)}.lastName(), isDir)
				return to.explainError(to.fs.Symlink(ctx, target, to.rest))
			}
			return a.forEachURL(ctx, urls[:1], func(r remote) error { return r.linkTo(ctx, to.entryFor(r.lastName(), isDir)) })
		},
	}
	cmd.Flags().BoolVarP(&symbolic, "symbolic", "s", false, "create a symbolic link")
	return cmd
}

func (r remote) linkTo(ctx context.Context, to remote) error {
	if r.fs != to.fs {
		return r.explainError(errors.New("a hard link must be in the same export: use ln -s or cp"))
	}
	return r.explainNames(r.fs.Link(ctx, r.rest, to.rest), to)
}
