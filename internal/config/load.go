package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Load reads the file at path. env answers for ${NAME} (os.LookupEnv); a
// relative ${file:PATH} is beside the file. The error is Errors if the file
// could be read; the Config's Version is when the file came to be as it is.
func Load(path string, env func(name string) (string, bool)) (*Config, error) {
	return LoadAfter(path, env, 0)
}

// LoadAfter is Load for a file that takes the place of a configuration with the
// Version before: its own is above that, also if the file is older. What is put
// back is the newest word.
func LoadAfter(path string, env func(name string) (string, bool), before int64) (*Config, error) {
	src, read, err := readFile(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	files := []File{read}
	c, err := parseVersion(path, src, max(read.Changed.UnixMilli(), before+1), Lookups{
		Env: env,
		File: func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), name)
			}
			content, read, err := readFile(name, maxSecretBytes)
			files = append(files, read)
			return content, err
		},
	})
	if err != nil {
		return nil, err
	}
	for _, t := range []TLS{c.Server.TLS, c.Server.AdminTLS} {
		if t.CertFile != "" {
			files = append(files, Stat(t.CertFile), Stat(t.KeyFile))
		}
	}
	c.Files = files
	return c, nil
}

// Parse reads a configuration's text; name stands for it in errors, which are
// always Errors. The Config's Version is 0.
func Parse(name string, src []byte, lookups Lookups) (*Config, error) {
	return parseVersion(name, src, 0, lookups)
}

func parseVersion(name string, src []byte, version int64, lookups Lookups) (*Config, error) {
	root, problems := readTree(name, src)
	if root == nil {
		return nil, Errors(inOrder(problems))
	}
	d := newDecoder(name, version)
	d.problems = lookups.expandAll(name, root)
	c := d.config(root)
	d.check()
	if len(d.problems) > 0 {
		return nil, Errors(inOrder(d.problems))
	}
	c.Warnings = inOrder(d.warnings)
	return c, nil
}

// config reads the whole file.
func (d *decoder) config(root *node) *Config {
	c := &Config{
		Server:      defaultServer(),
		Store:       defaultStore(),
		Enforcement: Enforce,
		Telemetry:   Telemetry{MaxLabelValues: 1000},
		Version:     d.version,
	}
	d.object(root, fields{
		"server":      d.server(&c.Server),
		"store":       d.store(&c.Store),
		"enforcement": set(d, &c.Enforcement, oneOf(Enforce, Shadow, Off)),
		"telemetry":   d.telemetry(&c.Telemetry),
		"providers":   setList(d, &c.Providers, d.provider),
		"models":      setList(d, &c.Models, d.model),
		"limits":      func(n *node) { d.limitList(n, &c.Limits, gatewayPlace()) },
		"passthrough": setList(d, &c.Passthrough, d.passthrough),
		"teams":       setList(d, &c.Teams, d.team),
	})
	return c
}

// readFile reads a file of at most limit bytes, and one more of a larger one:
// who reads the content sees that it is too large. The File is what it was
// before it was read.
func readFile(path string, limit int64) ([]byte, File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, File{Path: path}, err
	}
	defer f.Close() //nolint:errcheck // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, File{Path: path}, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	return content, fileOf(path, info), err
}
