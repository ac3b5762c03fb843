package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) newCat() *cobra.Command {
	var urls []location
	return &cobra.Command{
		Use:   "cat URL...",
		Short: "Write files to standard output",
		Args:  a.parseURLs(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.forEachURL(ctx, urls, func(r remote) error { return r.explainError(a.catFile(ctx, r)) })
		},
	}
}

func (a *app) catFile(ctx context.Context, r remote) error {
	f, err := r.fs.Open(ctx, r.rest)
	if err != nil {
		return err
	}
	_, err = f.CopyTo(ctx, a.stdout, 0)
	return err
}
