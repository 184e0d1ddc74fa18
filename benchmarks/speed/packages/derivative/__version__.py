__version__: str = '0.6.3'
