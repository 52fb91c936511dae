"""Sun, Matsuzaki, Okanohara & Tsujii (2009), section 4: latent dependencies in synthetic data (figure 3)."""
